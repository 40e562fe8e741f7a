"""Which tokens the target's answers are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treegraft.distill.data import Example


def answer_counts(examples: Sequence[Example], vocab: int) -> np.ndarray:
    """How often each token occurs in the answers, [vocab]."""
    return np.bincount(np.concatenate([example.tokens[example.prompt:] for example in examples]), minlength=vocab)


def ranking(counts: np.ndarray) -> np.ndarray:
    """Token ids, the most frequent first; among equals the lowest, in BPE vocabularies the more common ones."""
    return np.lexsort((np.arange(len(counts)), -counts))


def coverage(counts: np.ndarray, chosen: np.ndarray) -> float:
    """The share of all answer tokens that are among the `chosen` ones."""
    return float(counts[chosen].sum() / counts.sum())
