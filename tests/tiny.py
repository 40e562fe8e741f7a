"""Tiny random models, one a family of attention, and a drafter that resembles its target."""

from __future__ import annotations

import copy
import functools

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    Qwen3Config,
)

VOCAB = 61
SIZES = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512,
         "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "initializer_range": 0.5}
CONFIGS = {
    "llama": LlamaConfig(**SIZES),
    "qwen3": Qwen3Config(**SIZES),
    "mistral": MistralConfig(**SIZES, sliding_window=12),
    "gemma3": Gemma3TextConfig(**SIZES, sliding_window=12, query_pre_attn_scalar=8,
                               layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
}


@functools.cache
@torch.inference_mode(False)  # whoever asks first
def target(family: str) -> torch.nn.Module:
    """A random model of the family, the same in every test."""
    torch.manual_seed(7)
    return AutoModelForCausalLM.from_config(CONFIGS[family], dtype=torch.float32).eval()


@functools.cache
@torch.inference_mode(False)
def drafter(family: str, noise: float = 0.15) -> torch.nn.Module:
    """The target with noise on its weights: often right, often wrong."""
    model = copy.deepcopy(target(family))
    torch.manual_seed(11)
    with torch.no_grad():
        for weight in model.parameters():
            weight += noise * weight.std() * torch.randn_like(weight)
    return model.eval()
