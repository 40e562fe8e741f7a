"""Training an EAGLE-3 head by unrolling it as it will draft (arXiv 2503.01840, section 3.2, "training-time test")."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import embedding, pad, scaled_dot_product_attention
from transformers import LlamaConfig, PreTrainedModel

from treegraft.distill.data import Batch
from treegraft.distill.errors import DistillError
from treegraft.distill.loss import Teacher, agreement, soft_cross_entropy
from treegraft.distill.states import TargetStates
from treegraft.models.eagle3 import Eagle3Head, HeadConfig
from treegraft.models.eagle3_files import write_head

FROM_BOTH = ("q_proj.weight", "k_proj.weight", "v_proj.weight")
"""Matrices of the first layer that read the token embedding and the state side by side."""

STEP_WEIGHT = 0.8
"""Weight of an unroll step's loss in units of the step before it (EAGLE-3's code)."""


def config_for(target: PreTrainedModel, draft_vocab: int, layers: tuple[int, ...]) -> HeadConfig:
    """A head of one layer as wide as the target's. Errors: `DistillError` for `layers` that the target lacks."""
    of = target.config.get_text_config()
    if not all(low < high for low, high in pairwise((-1, *layers, of.num_hidden_layers))):
        raise DistillError(f"aux-layers were {', '.join(map(str, layers))}; allowed: ascending numbers from 0 to "
                           f"{of.num_hidden_layers - 1}, the target's layers, usually a low, a middle and a high one.")
    layer = LlamaConfig(
        hidden_size=of.hidden_size, intermediate_size=of.intermediate_size,
        num_attention_heads=of.num_attention_heads, num_key_value_heads=of.num_key_value_heads,
        head_dim=getattr(of, "head_dim", None), num_hidden_layers=1, rms_norm_eps=getattr(of, "rms_norm_eps", 1e-5),
        rope_parameters={"rope_type": "default", "rope_theta": rope_theta(of)}, vocab_size=of.vocab_size,
        max_position_embeddings=of.max_position_embeddings, bos_token_id=of.bos_token_id, eos_token_id=of.eos_token_id)
    return HeadConfig(layer=layer, draft_vocab=draft_vocab, aux_layers=layers, target_hidden=of.hidden_size)


def rope_theta(config: LlamaConfig) -> float:
    """The base of the target's rotary positions, 10000 where it has none or several."""
    parameters = getattr(config, "rope_parameters", None) or {}
    return float(parameters.get("rope_theta", 10_000.0))


@torch.no_grad()
def start_from_target(head: Eagle3Head, target: PreTrainedModel, vocab: np.ndarray) -> None:
    """Start as the target's last layer on its high state: MLP, attention, norms and head rows where shapes agree.

    The token embedding enters at zero weight, so the head starts by repeating what the target already knows there.
    """
    width = head.config.target_hidden
    head.fc.weight.zero_()
    if head.fc.weight.shape[0] == width:
        head.fc.weight[:, -width:] = torch.eye(width)
    theirs = last_layer(target)
    theirs["hidden_norm.weight"] = theirs.pop("input_layernorm.weight", torch.zeros(0))
    for name, ours in head.layers[0].named_parameters():
        given = theirs.get(name, torch.zeros(0))
        if ours.shape == given.shape:
            ours.copy_(given)
        elif name.endswith(FROM_BOTH) and ours[:, width:].shape == given.shape:
            ours.zero_()
            ours[:, width:] = given
    head.lm_head.weight.copy_(target.get_output_embeddings().weight[torch.from_numpy(vocab)])
    norm = getattr(target.base_model, "norm", None)
    if norm is not None and norm.weight.shape == head.norm.weight.shape:
        head.norm.weight.copy_(norm.weight)


def last_layer(target: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Parameters of the target's last decoder layer by name, none where its layers are not found."""
    layers = getattr(target.base_model, "layers", None)
    return dict(layers[-1].named_parameters()) if layers is not None else {}


class UnrolledAttention:
    """Attention of unroll step j at column i: the first step's columns up to i, then its own steps 1 to j.

    Columns before `first` are left out of later steps, for no loss reads them.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self._past: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}

    def __call__(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        past = self._past.setdefault(layer, [])
        past.append((keys, values))
        groups = queries.shape[1] // keys.shape[1]
        if len(past) == 1:
            return scaled_dot_product_attention(queries, keys.repeat_interleave(groups, 1),
                                                values.repeat_interleave(groups, 1), is_causal=True)
        return self._attend(queries.unflatten(1, (-1, groups)), past).flatten(1, 2)

    def _attend(self, queries: torch.Tensor, past: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        """`queries` [batch, kv heads, groups, columns, dim]."""
        (first_keys, first_values), *own = past
        columns, length = queries.shape[3], first_keys.shape[2]
        queries = queries * queries.shape[-1] ** -0.5
        ahead = torch.ones(columns, length, dtype=torch.bool, device=queries.device).triu(self.first + 1)
        scores = (queries @ first_keys.unsqueeze(2).mT).masked_fill(ahead, -torch.inf)
        mine = [(queries * keys.unsqueeze(2)).sum(-1, keepdim=True) for keys, _ in own]
        share = torch.cat((scores, *mine), -1).softmax(-1, dtype=torch.float32).to(queries.dtype)
        mixed = share[..., :length] @ first_values.unsqueeze(2)
        for place, (_, values) in enumerate(own):
            mixed = mixed + share[..., length + place, None] * values.unsqueeze(2)
        return mixed


class Eagle3Student:
    """An EAGLE-3 head in training. `vocab` holds the target ids of its output rows, ascending."""

    kind = "eagle3"

    def __init__(self, head: Eagle3Head, target: PreTrainedModel, vocab: np.ndarray, states: TargetStates,
                 steps: int) -> None:
        self.module, self.vocab, self.steps = head, vocab, steps
        self._embeddings, self._states = target.get_input_embeddings().weight.detach(), states
        device = self._embeddings.device
        rows = torch.from_numpy(vocab).to(device)
        self._teacher_head = target.get_output_embeddings().weight.detach()[rows]
        self._sayable = torch.zeros(len(self._embeddings), dtype=torch.bool, device=device)
        self._sayable[rows] = True

    def loss(self, batch: Batch) -> torch.Tensor:
        """Mean over predicted tokens of the steps' cross-entropies, weighted by `STEP_WEIGHT`."""
        total, weight = 0.0, 0.0
        for step, (normed, teacher) in enumerate(self._unroll(batch)):
            loss = soft_cross_entropy(normed, self.module.lm_head.weight, teacher)
            total = total + STEP_WEIGHT**step * loss / max(1, len(normed))
            weight += STEP_WEIGHT**step
        return total / weight

    @torch.no_grad()
    def measure(self, batch: Batch) -> torch.Tensor:
        """Sums of `agreement` [steps, 4]."""
        return torch.stack([agreement(normed, self.module.lm_head.weight, teacher)
                            for normed, teacher in self._unroll(batch)])

    def write(self, folder: Path) -> None:
        """Write the head in SpecForge's layout, in bf16."""
        write_head(folder, self.module, self.vocab, len(self._sayable))

    def _unroll(self, batch: Batch) -> Iterator[tuple[torch.Tensor, Teacher]]:
        """A step at a time: the states [rows, hidden] that `lm_head` reads where a sayable answer token comes next, and
        the target's distributions there."""
        aux, last = self._states(batch)
        wanted = batch.predicts(0)
        wanted[:, :-1] &= self._sayable[batch.tokens[:, 1:]]
        teachers = self._distributions(last[wanted])
        row = torch.full(wanted.shape, -1, device=wanted.device)
        row[wanted] = torch.arange(len(teachers), device=wanted.device)
        first = max(0, int(batch.prompts.min()) - 1 - self.steps)
        attend, state = UnrolledAttention(first), self.module.fuse(aux.to(self.module.fc.weight.dtype))
        for step in range(self.steps):
            start = first if step else 0
            tokens = shifted(batch.tokens, start + step + 1, state.shape[1])
            positions = torch.arange(start + step, start + step + state.shape[1], device=tokens.device)[None]
            state, normed = self.module(embedding(tokens, self._embeddings).to(state.dtype), state, positions,
                                        attend)
            at = shifted(row, start + step + 1, state.shape[1], fill=-1)
            chosen = at >= 0
            yield normed[chosen], lambda part, rows=at[chosen]: teachers[rows[part]]
            state = state if step else state[:, first:]

    @torch.no_grad()
    def _distributions(self, last: torch.Tensor) -> torch.Tensor:
        """The target's distributions [rows, draft vocab] over the draft vocabulary."""
        made = torch.empty(len(last), len(self._teacher_head), device=last.device)
        for start in range(0, len(last), 512):
            made[start:start + 512] = (last[start:start + 512] @ self._teacher_head.T).float().softmax(-1)
        return made


def shifted(values: torch.Tensor, start: int, columns: int, fill: int = 0) -> torch.Tensor:
    """`columns` columns of `values` [batch, n] from `start` on, filled up where they end."""
    part = values[:, start:start + columns]
    return pad(part, (0, columns - part.shape[1]), value=fill)
