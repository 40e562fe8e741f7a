"""Training a shallow copy of the target: some of its layers between its own embeddings and head."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from treegraft.distill.data import Batch
from treegraft.distill.errors import DistillError
from treegraft.distill.loss import Teacher, agreement, soft_cross_entropy
from treegraft.distill.states import TargetStates
from treegraft.models.loader import RANKING_FILE

SHARED = ("embed_tokens", "lm_head")
"""Parts that stay the target's and are not stored."""


def spread_layers(depth: int, count: int) -> list[int]:
    """`count` of `depth` layers, the first and the last among them, at even distances.

    Errors: `DistillError` for more than there are.
    """
    if not 1 <= count <= depth:
        raise DistillError(f"{count} layers were asked for; allowed: 1 to {depth}, as many as the target has.")
    return np.linspace(0, depth - 1, count).round().astype(int).tolist()


def shallow_copy(target: PreTrainedModel, layers: Sequence[int]) -> PreTrainedModel:
    """A model in float32 of the chosen layers of `target`, in that order; embeddings and head are the target's values,
    frozen. Errors: `DistillError` for layers that it lacks, or a model that is not built like a Llama."""
    theirs = getattr(target.base_model, "layers", None)
    if theirs is None or not hasattr(target.base_model, "embed_tokens"):
        raise DistillError(f"The target ({target.config.model_type}) does not keep its decoder in `layers` behind "
                           "`embed_tokens`, so no shallow copy can be made. Llama, Qwen, Mistral and Gemma do.")
    if not layers or len(set(layers)) < len(layers) or not all(0 <= layer < len(theirs) for layer in layers):
        raise DistillError(f"layers were {list(layers)}; allowed: different numbers from 0 to {len(theirs) - 1}, the "
                           "target's layers.")
    config = copy.deepcopy(target.config)
    text = config.get_text_config()
    text.num_hidden_layers = len(layers)
    if getattr(text, "layer_types", None):
        text.layer_types = [text.layer_types[layer] for layer in layers]
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).to(target.device)
    places = {old: new for new, old in enumerate(layers)}
    kept = {}
    for name, value in target.state_dict().items():
        head, dot, rest = name.partition("layers.")
        number, _, inner = rest.partition(".")
        if not dot:
            kept[name] = value
        elif int(number) in places:
            kept[f"{head}layers.{places[int(number)]}.{inner}"] = value
    model.load_state_dict(kept)
    for name, weight in model.named_parameters():
        weight.requires_grad_(not any(part in name for part in SHARED))
    return model


class LMStudent:
    """A shallow copy of the target in training. `ranking` are the answers' tokens, most frequent first."""

    kind = "lm"

    def __init__(self, model: PreTrainedModel, states: TargetStates, ranking: np.ndarray) -> None:
        self.module, self.ranking = model, ranking
        self._states = states
        self._head = model.get_output_embeddings().weight

    def loss(self, batch: Batch) -> torch.Tensor:
        """Mean cross-entropy to the target's distribution over the whole vocabulary, on answer tokens."""
        hidden, teacher = self._answers(batch)
        return soft_cross_entropy(hidden, self._head, teacher) / max(1, len(hidden))

    @torch.no_grad()
    def measure(self, batch: Batch) -> torch.Tensor:
        """Sums of `agreement` [1, 4]."""
        hidden, teacher = self._answers(batch)
        return agreement(hidden, self._head, teacher)[None]

    def _answers(self, batch: Batch) -> tuple[torch.Tensor, Teacher]:
        """Final states [rows, hidden] where an answer token comes next, and the target's distributions there."""
        wanted = batch.predicts(0)
        _, last = self._states(batch)
        last = last[wanted]
        hidden = self.module.base_model(batch.tokens, use_cache=False).last_hidden_state[wanted]
        return hidden, lambda part: (last[part].to(self._head.dtype) @ self._head.T).float().softmax(-1)

    def write(self, folder: Path) -> None:
        """Write layers and norm in bf16, without the shared embeddings and head, and the ranking, replacing what
        `folder` holds."""
        folder.mkdir(parents=True, exist_ok=True)
        config = copy.deepcopy(self.module.config)
        config.dtype = torch.bfloat16
        config.save_pretrained(folder)
        own = {name: value.to("cpu", torch.bfloat16).contiguous() for name, value in self.module.state_dict().items()
               if not any(part in name for part in SHARED)}
        replace_tensors(own, folder / "model.safetensors")
        replace_tensors({"tokens": torch.from_numpy(self.ranking.astype(np.int32))}, folder / RANKING_FILE)


def replace_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Write a file of tensors, whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    save_file(tensors, part, metadata={"format": "pt"})
    os.replace(part, path)
