"""The network of a DFlash drafter (arXiv 2602.06036): a few decoder layers that fill a block of masks at once.

The block is the last token of the text followed by masks. Every layer lets it attend to itself, in both directions, and
to the text, of which the network knows only the target's hidden states.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding

from treegraft.models.layers import Attend, DecoderLayer


@dataclass(frozen=True)
class BlockConfig:
    """What a DFlash drafter is made of.

    `layer` is the configuration of its decoder layers (Llama's keys), which norm queries and keys by head (Qwen3).
    `aux_layers` are the target layers whose outputs it reads, numbered from 0, "after the layer". `block` counts the
    tokens of a block, the last one of the text included; `mask` is the token that stands for the others. One entry a
    layer: `windows` (positions a token sees, itself included; None for all) and `causal` (a token of the block does not
    see later ones). With `from_anchor` the first place of the block already predicts the next token, so a block drafts
    `block` tokens, not one less.
    """

    layer: PreTrainedConfig
    aux_layers: tuple[int, ...]
    block: int
    mask: int
    windows: tuple[int | None, ...]
    causal: tuple[bool, ...]
    from_anchor: bool = False


class BlockNet(nn.Module):
    """Predicts every token of a block from the text before it, independently of one another.

    Embeddings and output head are not its own: it reads the target's embeddings, and puts out what a head reads.
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        layer = config.layer
        self.config = config
        self.fc = nn.Linear(len(config.aux_layers) * layer.hidden_size, layer.hidden_size, bias=False)
        self.hidden_norm = LlamaRMSNorm(layer.hidden_size, layer.rms_norm_eps)
        self.layers = nn.ModuleList(DecoderLayer(layer, index, qk_norm=True)
                                    for index in range(layer.num_hidden_layers))
        self.norm = LlamaRMSNorm(layer.hidden_size, layer.rms_norm_eps)
        self.rotary = LlamaRotaryEmbedding(layer)

    def context(self, aux: torch.Tensor, positions: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values, [batch, heads, n, dim] each, by which each layer knows the text.

        `aux` are the target's hidden states side by side, [batch, n, layers * hidden], `positions` [batch, n] theirs.
        """
        state = self.hidden_norm(self.fc(aux))
        rotary = self.rotary(state, positions)
        return [layer.self_attn.keys_values(state, rotary) for layer in self.layers]

    def forward(self, embeddings: torch.Tensor, positions: torch.Tensor, attend: Attend) -> torch.Tensor:
        """What an output head reads at every place of the block, [batch, n, hidden]; `embeddings` are the block's."""
        rotary = self.rotary(embeddings, positions)
        hidden = embeddings
        for layer in self.layers:
            hidden = layer(hidden, rotary, attend)
        return self.norm(hidden)
