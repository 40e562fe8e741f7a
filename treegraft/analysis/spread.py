"""How far values lie apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of `count` values."""

    median: float
    low: float
    high: float
    count: int


def spread(values: Iterable[float]) -> Spread | None:
    """The spread of some values, None where there are none."""
    values = list(values)
    if not values:
        return None
    low, median, high = np.percentile(values, (25, 50, 75)).tolist()
    return Spread(median, low, high, len(values))
