"""Tiny models on disk: Hugging Face folders and a GGUF file."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.models import tokenizers_of

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2,
         "pad_token_id": 0, "initializer_range": 0.5}


def save_llama(folder: Path, tokenizer: PreTrainedTokenizerFast | None = None, rows: int | None = None, seed: int = 0,
               **changes) -> Path:
    """A random Llama with a tokenizer, with as many embedding rows as tokens unless `rows` says otherwise."""
    tokenizer = tokenizer or tokenizers_of.byte_level()
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**(SIZES | {"vocab_size": rows or len(tokenizer)} | changes)))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_gguf(path: Path, folder: Path) -> Path:
    """The Llama of `folder` as an unquantised GGUF file."""
    model = LlamaForCausalLM.from_pretrained(folder)
    config, tokenizer = model.config, tokenizers_of.byte_level()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    add_tokenizer(writer, tokenizer)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
        values = tensor.numpy() if heads is None else interleaved(tensor.numpy(), heads)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """The rows of a query or key projection in the order in which GGUF keeps those of Llama."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer: PreTrainedTokenizerFast) -> None:
    vocab = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocab)
    writer.add_token_types([gguf.TokenType.CONTROL if id < 3 else gguf.TokenType.NORMAL for id in range(len(vocab))])
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
