"""The network of an EAGLE-3 head (arXiv 2503.01840): one decoder layer that drafts from the target's hidden states."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding

from treegraft.models.layers import Attend, Attention, DecoderLayer, Rotary


@dataclass(frozen=True)
class HeadConfig:
    """What a head is made of.

    `layer` is the configuration of its decoder layers (Llama's keys). `draft_vocab` tokens have a row in its output
    head. `aux_layers` are the three target layers whose outputs it reads, numbered from 0, "after the layer".
    `target_hidden` is the width of those. The switches are variants: `norm_before_residual`, `norm_before_fc` (one norm
    over the three states, EAGLE-3 for gpt-oss), `fc_norm` (one a state), `norm_output` (the state fed back is the
    normed one, EAGLE-3.1), `qk_norm` (Qwen3 layers).
    """

    layer: PreTrainedConfig
    draft_vocab: int
    aux_layers: tuple[int, ...]
    target_hidden: int
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    qk_norm: bool = False


class FirstLayer(nn.Module):
    """Attends over token embedding and state side by side; the residual stream is the state."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        layer = config.layer
        self.normed_residual = config.norm_before_residual
        self.input_layernorm = LlamaRMSNorm(layer.hidden_size, layer.rms_norm_eps)
        self.hidden_norm = LlamaRMSNorm(layer.hidden_size, layer.rms_norm_eps)
        self.self_attn = Attention(layer, 0, 2 * layer.hidden_size, config.qk_norm)
        self.post_attention_layernorm = LlamaRMSNorm(layer.hidden_size, layer.rms_norm_eps)
        self.mlp = LlamaMLP(layer)

    def forward(self, embeddings: torch.Tensor, state: torch.Tensor, rotary: Rotary, attend: Attend) -> torch.Tensor:
        normed = self.hidden_norm(state)
        both = torch.cat((self.input_layernorm(embeddings), normed), -1)
        hidden = (normed if self.normed_residual else state) + self.self_attn(both, rotary, attend)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Eagle3Head(nn.Module):
    """Predicts the token after next: from the embedding of the next token and the state at the current one.

    The state is `fuse` of the target's three hidden states where the target has been, and the head's own last output
    beyond (section 3.1 of the paper). `embeddings` are the target's, [vocab, hidden], shared and never trained.
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        layer = config.layer
        self.config = config
        wide = len(config.aux_layers) * config.target_hidden
        self.input_norm = LlamaRMSNorm(wide, layer.rms_norm_eps) if config.norm_before_fc else None
        self.fc_norm = nn.ModuleList(LlamaRMSNorm(config.target_hidden, layer.rms_norm_eps)
                                     for _ in config.aux_layers) if config.fc_norm else None
        self.fc = nn.Linear(wide, layer.hidden_size, bias=False)
        self.layers = nn.ModuleList([FirstLayer(config), *(DecoderLayer(layer, index, config.qk_norm)
                                                           for index in range(1, layer.num_hidden_layers))])
        self.norm = LlamaRMSNorm(layer.hidden_size, layer.rms_norm_eps)
        self.lm_head = nn.Linear(layer.hidden_size, config.draft_vocab, bias=False)
        self.rotary = LlamaRotaryEmbedding(layer)

    def fuse(self, aux: torch.Tensor) -> torch.Tensor:
        """The state [.., n, hidden] that stands for the target's hidden states `aux` [.., n, 3 * target_hidden]."""
        if self.input_norm is not None:
            aux = self.input_norm(aux)
        if self.fc_norm is not None:
            parts = aux.chunk(len(self.fc_norm), -1)
            aux = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1)
        return self.fc(aux)

    def forward(self, embeddings: torch.Tensor, state: torch.Tensor, positions: torch.Tensor,
                attend: Attend) -> tuple[torch.Tensor, torch.Tensor]:
        """One step over [batch, n]: the state to feed back, and what `lm_head` reads, both [batch, n, hidden]."""
        rotary = self.rotary(state, positions)
        hidden = self.layers[0](embeddings, state, rotary, attend)
        for layer in self.layers[1:]:
            hidden = layer(hidden, rotary, attend)
        normed = self.norm(hidden)
        return (normed if self.config.norm_output else hidden), normed
