"""A decoder layer whose caller decides what it attends to: what the networks that draft from hidden states are made
of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, rotate_half

Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Attention of one layer: (layer, queries, keys, values), each [batch, heads, n, dim], gives [batch, heads, n, dim].

The caller decides which earlier keys and values the new ones join: a cache when drafting, an unrolled graph when
training."""

Rotary = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines of rotary positions, [batch, n, dim] each."""


def turned(x: torch.Tensor, rotary: Rotary) -> torch.Tensor:
    """Queries or keys [batch, heads, n, dim] at their positions."""
    cos, sin = rotary
    return x * cos.unsqueeze(1) + rotate_half(x) * sin.unsqueeze(1)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; `width` is that of its input, `qk_norm` norms queries and keys by
    head (Qwen3)."""

    def __init__(self, layer: PreTrainedConfig, index: int, width: int, qk_norm: bool) -> None:
        super().__init__()
        self.index = index
        self.dim = getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads
        queries, keys = layer.num_attention_heads * self.dim, layer.num_key_value_heads * self.dim
        bias = getattr(layer, "attention_bias", False)
        self.q_proj = nn.Linear(width, queries, bias=bias)
        self.k_proj = nn.Linear(width, keys, bias=bias)
        self.v_proj = nn.Linear(width, keys, bias=bias)
        self.o_proj = nn.Linear(queries, layer.hidden_size, bias=bias)
        self.q_norm = LlamaRMSNorm(self.dim, layer.rms_norm_eps) if qk_norm else nn.Identity()
        self.k_norm = LlamaRMSNorm(self.dim, layer.rms_norm_eps) if qk_norm else nn.Identity()

    def keys_values(self, x: torch.Tensor, rotary: Rotary) -> tuple[torch.Tensor, torch.Tensor]:
        """What others attend to at [batch, n, width]: [batch, heads, n, dim] each."""
        keys = self.k_norm(self.k_proj(x).unflatten(-1, (-1, self.dim))).transpose(1, 2)
        values = self.v_proj(x).unflatten(-1, (-1, self.dim)).transpose(1, 2)
        return turned(keys, rotary), values

    def forward(self, x: torch.Tensor, rotary: Rotary, attend: Attend) -> torch.Tensor:
        queries = self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.dim))).transpose(1, 2)
        mixed = attend(self.index, turned(queries, rotary), *self.keys_values(x, rotary))
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    """An ordinary decoder layer: attention, then a gated MLP, each behind a norm."""

    def __init__(self, layer: PreTrainedConfig, index: int, qk_norm: bool) -> None:
        super().__init__()
        self.input_layernorm = LlamaRMSNorm(layer.hidden_size, layer.rms_norm_eps)
        self.self_attn = Attention(layer, index, layer.hidden_size, qk_norm)
        self.post_attention_layernorm = LlamaRMSNorm(layer.hidden_size, layer.rms_norm_eps)
        self.mlp = LlamaMLP(layer)

    def forward(self, hidden: torch.Tensor, rotary: Rotary, attend: Attend) -> torch.Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), rotary, attend)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))
