"""Turn the default target's GGUF file into a folder that loads fast, whatever the version of transformers."""

from __future__ import annotations

from pathlib import Path

import torch
from gguf import GGUFReader, TokenType
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from treegraft.models.weights import locate, quiet, read_config, read_model


def convert(gguf: Path, folder: Path) -> None:
    """Dequantise `gguf` into `folder`: bfloat16 safetensors, configuration, tokenizer and chat template.

    bfloat16 because the drafters were distilled from the model run in it; against the exact values of the GGUF the
    next-token distribution moves by a KL of 8e-5 nats on average, far less than the quantisation itself moved it.
    Errors: `LoadError` where transformers cannot read the file, `OSError` and `SafetensorError` from the disk.
    """
    source = locate(gguf)
    model = read_model(source, read_config(source), torch.float32, torch.device("cpu")).to(torch.bfloat16)
    tokenizer = smollm_tokenizer(gguf, model.config.max_position_embeddings)
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def smollm_tokenizer(gguf: Path, context_limit: int) -> PreTrainedTokenizerFast:
    """The tokenizer that the file's metadata describe: byte-level BPE with the "smollm" splitting, digits one by one.

    Built here because what transformers makes of it changes from version to version (splitting and end token).
    """
    metadata = {name.removeprefix("tokenizer."): field for name, field in GGUFReader(gguf).fields.items()
                if name.startswith("tokenizer.")}
    tokens = metadata["ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in metadata["ggml.merges"].contents()]
    backend = Tokenizer(BPE({token: id for id, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token, kind in
                                zip(tokens, metadata["ggml.token_type"].contents(), strict=True)
                                if kind == TokenType.CONTROL])
    named = {name: tokens[metadata[f"ggml.{key}_token_id"].contents()] for name, key in (
        ("bos_token", "bos"), ("eos_token", "eos"), ("unk_token", "unknown"), ("pad_token", "padding"))}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=context_limit,
                                   clean_up_tokenization_spaces=False,
                                   chat_template=metadata["chat_template"].contents(), **named)
