"""The scheduler's network: 17 features to the margin of a call, in NumPy (TreeGraft, scheduler)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treegraft.scheduler.features import FEATURES

WIDTHS = (len(FEATURES), 64, 32, 1)
"""Inputs, two hidden layers with ReLU, output."""

NARROWEST = 1e-12
"""Least standard deviation that features are divided by."""


@dataclass(frozen=True)
class Scheduler:
    """Predicts how many milliseconds a call saves (negative: costs).

    `weights` and `biases` are those of the three linear layers, [out, in] and [out]. Features are scaled by their
    `mean` and `std` [17], the output by `margin_mean` and `margin_std`. `provenance` says what it was trained on.
    """

    name: str
    mean: np.ndarray
    std: np.ndarray
    margin_mean: float
    margin_std: float
    weights: tuple[np.ndarray, ...] = field(repr=False)
    biases: tuple[np.ndarray, ...] = field(repr=False)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def margins(self, features: np.ndarray) -> np.ndarray:
        """The margins [n] of features [n, 17], in milliseconds."""
        hidden = (features - self.mean) / np.maximum(self.std, NARROWEST)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.maximum(hidden @ weight.T + bias, 0)
        return (hidden @ self.weights[-1].T + self.biases[-1])[:, 0] * self.margin_std + self.margin_mean

    def margin(self, features: np.ndarray) -> float:
        """The margin of one set of features [17], in milliseconds."""
        return float(self.margins(features[None])[0])
