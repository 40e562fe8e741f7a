"""The target's hidden states of the training text, computed once and kept on disk."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from treegraft.distill.data import Batch, Example
from treegraft.distill.errors import DistillError
from treegraft.models.capture import LayerStates

LAST = "last"
"""The state that the output head reads."""


class TargetStates:
    """Hidden states of the target for any batch of `examples`, by the names `layer-<n>` (output of layer n) and `last`.

    Always rounded to bf16. With a `folder`, each example's states are computed the first time and read from disk
    afterwards; the caller keeps one folder a corpus and target. Without, they are computed every time.

    Errors: `DistillError` where the disk is too small.
    """

    def __init__(self, model: PreTrainedModel, examples: Sequence[Example], layers: Sequence[int],
                 folder: Path | None) -> None:
        self.model = model
        self.layers = layers
        self._starts = np.cumsum([0, *(len(example) for example in examples)])
        width = model.config.get_text_config().hidden_size
        names = [*(f"layer-{layer}" for layer in layers), LAST]
        self._shelves = [Shelf(folder / name, len(examples), int(self._starts[-1]), width)
                         for name in names] if folder else []
        need = sum(shelf.missing_bytes for shelf in self._shelves)
        if folder and need > shutil.disk_usage(folder).free:
            raise DistillError(f"The target's hidden states need {need / 1e9:.1f} GB in {folder}, which has "
                               f"{shutil.disk_usage(folder).free / 1e9:.1f} GB free. Point the cache to a larger disk, "
                               "use fewer conversations, or train without the cache.")

    @torch.no_grad()
    def __call__(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """The states of the chosen layers side by side [batch, n, layers * hidden], and the last [batch, n, hidden]."""
        if self._shelves and all(shelf.has(batch.examples) for shelf in self._shelves):
            parts = [self._read(shelf, batch) for shelf in self._shelves]
        else:
            parts = [part.to(torch.bfloat16) for part in self._compute(batch)]
            for shelf, part in zip(self._shelves, parts, strict=False):
                self._write(shelf, batch, part)
            parts = [part.to(self.model.dtype) for part in parts]
        *aux, last = parts
        return (torch.cat(aux, -1) if aux else last[..., :0]), last

    def _compute(self, batch: Batch) -> list[torch.Tensor]:
        with LayerStates(self.model, self.layers) as kept:
            last = self.model.base_model(batch.tokens, use_cache=False).last_hidden_state
            return [*(kept.latest[layer] for layer in self.layers), last]

    def _read(self, shelf: Shelf, batch: Batch) -> torch.Tensor:
        rows = torch.zeros((*batch.tokens.shape, shelf.width), dtype=torch.bfloat16)
        for row, number, length in zip(rows, batch.examples, batch.lengths, strict=True):
            start = self._starts[number]
            row[:length] = torch.from_numpy(shelf.rows[start:start + length]).view(torch.bfloat16)
        return rows.to(batch.tokens.device, self.model.dtype)

    def _write(self, shelf: Shelf, batch: Batch, states: torch.Tensor) -> None:
        rows = states.cpu().contiguous().view(torch.int16).numpy()
        for row, number, length in zip(rows, batch.examples, batch.lengths, strict=True):
            start = self._starts[number]
            shelf.rows[start:start + length] = row[:length]
        shelf.done[batch.examples] = True


def fingerprint(model: PreTrainedModel) -> str:
    """Tells models apart that share a name: a hash of the beginning of every parameter."""
    digest = hashlib.sha256()
    for name, weight in model.named_parameters():
        digest.update(name.encode() + weight.detach().flatten()[:64].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


@torch.no_grad()
def check_head(model: PreTrainedModel) -> None:
    """Make sure that the target's logits are its output head on its last state, which is what students learn from.

    Errors: `DistillError` for a model that scales, caps or shifts its logits.
    """
    tokens = torch.arange(min(8, model.get_input_embeddings().weight.shape[0]), device=model.device)[None]
    head = model.get_output_embeddings()
    logits = model(tokens).logits.float()
    plain = (model.base_model(tokens).last_hidden_state @ head.weight.T).float()
    if head.bias is not None or not torch.allclose(logits, plain, rtol=1e-2, atol=1e-2 * float(plain.abs().max())):
        raise DistillError(f"The target ({model.config.model_type}) does something to its logits behind its output "
                           "head (a bias, scaling or capping), which students would not learn. Use another target, or "
                           "a drafter that was made for it.")


class Shelf:
    """One state of all examples in a file: `rows` [tokens, width] (bf16 bits), and which examples are `done`."""

    def __init__(self, path: Path, examples: int, tokens: int, width: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.width = width
        self.rows = open_array(path.with_suffix(".bin"), np.int16, (tokens, width))
        self.done = open_array(path.with_suffix(".done"), np.bool_, (examples,))

    @property
    def missing_bytes(self) -> int:
        """Disk that the examples still to come will take, roughly."""
        return round(self.rows.nbytes * (1 - self.done.mean()))

    def has(self, numbers: np.ndarray) -> bool:
        return bool(self.done[numbers].all())


def open_array(path: Path, dtype: type, shape: tuple[int, ...]) -> np.memmap:
    """An array in a file, made of zeros if it is not there. Errors: `DistillError` for one of another size."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if path.exists() and path.stat().st_size != size:
        raise DistillError(f"{path} holds states of another corpus or target ({path.stat().st_size} bytes instead of "
                           f"{size}). Delete its folder, or choose another one for the cache.")
    return np.memmap(path, dtype, "r+" if path.exists() else "w+", shape=shape)
