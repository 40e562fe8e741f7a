"""What a scheduler learns from: a row a decision, with its features and the milliseconds that a call saves there."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from treegraft.scheduler.features import FEATURES

COLUMNS = {"prompt": "iu", "position": "iu", "depth": "iu", "features": "f", "margin": "f"}
"""The columns and the kinds of numbers that they may hold, by NumPy's letters."""

LARGEST = 8 << 30
"""Bytes of a file's columns: some 50 million rows."""


class DatasetError(ValueError):
    """A data set that cannot be used; the text says why and what to do."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """One row for each decision state: what was seen before a layer, and what a call was worth there.

    `prompt` [n] numbers the prompt that the row comes from, `position` [n] is the output position, `depth` [n] the
    layer, from 1. `features` is [n, 17]. `margin` [n] is value(call) - value(skip) in milliseconds, where a value is
    minus the least time that the rest of the output takes. `impossible` counts states that were left out because they
    cannot occur; a part of a data set keeps the count of the whole. Errors: `DatasetError` for other shapes or kinds,
    for numbers that are not finite, and for layers below 1.
    """

    prompt: np.ndarray
    position: np.ndarray
    depth: np.ndarray
    features: np.ndarray
    margin: np.ndarray
    impossible: int = 0

    def __post_init__(self) -> None:
        rows = (np.size(self.margin),)
        for name, kinds in COLUMNS.items():
            column, shape = getattr(self, name), (*rows, len(FEATURES)) if name == "features" else rows
            if np.shape(column) != shape or column.dtype.kind not in kinds:
                kind = "whole numbers" if kinds == "iu" else "decimal numbers"
                raise DatasetError(f"{name} has shape {list(np.shape(column))} and type {np.asarray(column).dtype}; "
                                   f"needed: {kind} of shape {list(shape)}.")
            if not np.isfinite(column).all():
                raise DatasetError(f"{name} holds numbers that are not finite.")
        if len(self) and self.depth.min() < 1:
            raise DatasetError(f"depth holds {self.depth.min()}; layers are numbered from 1.")

    def __len__(self) -> int:
        return len(self.margin)

    @classmethod
    def concatenate(cls, parts: Iterable[Dataset]) -> Dataset:
        """All rows of `parts`, whose prompts have different numbers. Errors: `DatasetError` for no parts."""
        parts = list(parts)
        if not parts:
            raise DatasetError("There is no data set to put together.")
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS},
                   impossible=sum(part.impossible for part in parts))

    def of_prompts(self, prompts: np.ndarray) -> Dataset:
        """The rows of the prompts with these numbers."""
        rows = np.isin(self.prompt, prompts)
        return Dataset(**{name: getattr(self, name)[rows] for name in COLUMNS}, impossible=self.impossible)

    def split(self, share: float, seed: int) -> tuple[Dataset, Dataset]:
        """Two parts without a common prompt; the second one has `share` of the prompts, and each has at least one.

        Errors: `DatasetError` for fewer than two prompts.
        """
        prompts = np.random.default_rng(seed).permutation(np.unique(self.prompt))
        if len(prompts) < 2:
            raise DatasetError(f"The data set has rows of {len(prompts)} prompts, and prompts must be held out. "
                               "Run `treegraft values` on two or more.")
        held = min(max(1, round(share * len(prompts))), len(prompts) - 1)
        return self.of_prompts(prompts[held:]), self.of_prompts(prompts[:held])

    def save(self, path: Path) -> None:
        """Write a NumPy archive (.npz), whole or not at all. Errors: `DatasetError`."""
        part = path.with_name(f".{path.name}.part")
        try:
            with part.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, names=np.array(FEATURES), impossible=self.impossible,
                                    **{name: getattr(self, name) for name in COLUMNS})
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise DatasetError(f"{path} could not be written: {error.strerror}.") from None

    @classmethod
    def load(cls, path: Path) -> Dataset:
        """The data set in a file that `save` wrote. Errors: `DatasetError` for any other file."""
        try:
            arrays = read_arrays(path)
        except OSError as error:
            raise DatasetError(f"{path} cannot be read: {error.strerror or error}. Give the file that "
                               "`treegraft values` wrote.") from None
        except Exception as error:  # zipfile, its decompressors and NumPy each have their own for damaged files
            raise DatasetError(f"{path} is no data set of decisions ({error}). Give the file that `treegraft values` "
                               "wrote, or make it again.") from None
        if arrays["names"].tolist() != list(FEATURES):
            raise DatasetError(f"{path} was made for other features than this version of treegraft has. Make it again "
                               "with `treegraft values`.")
        try:
            return cls(**{name: arrays[name] for name in COLUMNS}, impossible=int(arrays["impossible"]))
        except (DatasetError, TypeError, ValueError) as error:
            raise DatasetError(f"{path} is damaged: {error} Make it again with `treegraft values`.") from None


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a data set's file."""
    names = [*COLUMNS, "names", "impossible"]
    with zipfile.ZipFile(path) as archive:
        size = sum(archive.getinfo(f"{name}.npy").file_size for name in names)
    if size > LARGEST:
        raise ValueError(f"it holds {size} bytes; at most {LARGEST} are allowed")
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in names}
