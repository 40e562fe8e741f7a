"""Draws from the distributions of models, by one seeded generator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers.generation.logits_process import (
    LogitsProcessor,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from treegraft.sampling import Sampling
from treegraft.verify import Draws


class Sampler:
    """Draws as `sampling` (at a temperature above 0) says, and verifies by the acceptance `rule`.

    `vocab` is how many tokens the target knows. The same seed gives the same numbers.
    """

    def __init__(self, sampling: Sampling, rule: str, vocab: int) -> None:
        self.rule, self.vocab = rule, vocab
        self._generator = torch.Generator().manual_seed(sampling.seed)
        self._processors = processors(sampling)

    def uniform(self) -> float:
        """The next random number in [0, 1)."""
        return float(self._uniforms(1)[0])

    def probabilities(self, logits: torch.Tensor) -> np.ndarray:
        """What tokens are drawn from: float64 [rows, tokens], the logits after temperature, top-k, top-p and min-p."""
        logits = logits.float() if logits.device.type != "mps" else logits.float().cpu()  # mps has no float64
        for process in self._processors:
            logits = process(None, logits)
        return logits.double().softmax(-1).cpu().numpy()

    def pick(self, probabilities: np.ndarray) -> np.ndarray:
        """A token [rows] drawn from each row of `probabilities` [rows, tokens], which need not sum to 1."""
        return at_shares(probabilities.cumsum(-1), self._uniforms(len(probabilities)))

    def draws(self, q: np.ndarray, k: int, replacement: bool) -> list[Draws]:
        """Up to k draws from each row of `q` [rows, vocab]; without `replacement` they differ from one another."""
        left, sums, rows = q, q.cumsum(-1), np.arange(len(q))
        tokens: list[list[int]] = [[] for _ in rows]
        for shares in self._uniforms(k, len(q)):
            drawn = at_shares(sums, shares)
            for row in np.flatnonzero(sums[:, -1] > 0).tolist():
                tokens[row].append(int(drawn[row]))
            if not replacement:
                left = left.copy() if left is q else left
                left[rows, drawn] = 0
                sums = left.cumsum(-1)
        return [Draws(tokens=drawn, q=row, replacement=replacement) for drawn, row in zip(tokens, q, strict=True)]

    def _uniforms(self, *shape: int) -> np.ndarray:
        return torch.rand(shape, generator=self._generator, dtype=torch.float64).numpy()


def processors(sampling: Sampling) -> Sequence[LogitsProcessor]:
    """transformers' own processors of logits, in the order of its `generate`."""
    found = [TemperatureLogitsWarper(sampling.temperature)]
    if sampling.top_k:
        found.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        found.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        found.append(MinPLogitsWarper(sampling.min_p))
    return found


def at_shares(sums: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The token [rows] at which the running sums [rows, tokens] of each row pass its share [rows] of the whole."""
    whole = sums[:, -1:]
    token = (sums <= shares[:, None] * whole).sum(-1)
    return np.minimum(token, (sums < whole).sum(-1))
