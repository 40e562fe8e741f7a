"""What each feature adds to a scheduler's margin, by integrated gradients (arXiv 1703.01365).

The way from the average state of the training data to the decision's state is a straight line in scaled features, and a
feature's contribution is its step times the mean slope of the margin along the way. The network is linear between the
places where one of its ReLUs switches, so these places are found and the mean is exact: contributions add up to the
margin of the decision minus that of the average state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.network import NARROWEST, Scheduler


@dataclass(frozen=True)
class Attribution:
    """A margin in milliseconds as a sum: `baseline`, that of the average training state, and the `parts` that the
    features add, by name."""

    margin: float
    baseline: float
    parts: Mapping[str, float]


def attribution(scheduler: Scheduler, seen: Mapping[str, float]) -> Attribution:
    """The margin for a decision's features, taken apart.

    Errors: `ValueError` for features that are missing or so large that the margin is no number.
    """
    if missing := [name for name in FEATURES if name not in seen]:
        raise ValueError(f"the recorded decision lacks {missing[0]}, and {len(missing) - 1} other features")
    features = np.array([seen[name] for name in FEATURES], float)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = (features - scheduler.mean) / np.maximum(scheduler.std, NARROWEST)
        margin, baseline = (float(value) for value in scheduler.margins(np.array([features, scheduler.mean])))
        parts = steps * mean_slopes(scheduler, steps) if np.isfinite(steps).all() else steps
    if not np.isfinite([margin, *parts]).all():
        raise ValueError("the recorded features are so large that their margin cannot be computed")
    return Attribution(margin, baseline, dict(zip(FEATURES, parts.tolist(), strict=True)))


def mean_slopes(scheduler: Scheduler, steps: np.ndarray) -> np.ndarray:
    """The mean slope [17] of the margin over the way from the average state along `steps` [17] of scaled features."""
    first, second, last = scheduler.weights
    ends = switches(scheduler, steps)
    shallow, deep = hidden(scheduler, steps, (ends[1:] + ends[:-1]) / 2)
    slopes = ((shallow > 0) * ((deep > 0) * last[0] @ second)) @ first * scheduler.margin_std
    return np.diff(ends) @ slopes


def switches(scheduler: Scheduler, steps: np.ndarray) -> np.ndarray:
    """The places on the way (0 to 1, both included) where a ReLU of the network switches, in order."""
    slope, offset = scheduler.weights[0] @ steps, scheduler.biases[0]
    turning = slope != 0
    ends = between(np.array([0.0, 1.0]), -offset[turning] / slope[turning])
    _, deep = hidden(scheduler, steps, ends)  # straight lines between these ends
    start, end = deep[:-1], deep[1:]
    crossed = start * end < 0
    share = start / np.where(crossed, start - end, 1)
    return between(ends, (ends[:-1, None] + share * np.diff(ends)[:, None])[crossed])


def hidden(scheduler: Scheduler, steps: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the ReLUs of both hidden layers get, [places, 64] and [places, 32], at places (0 to 1) on the way."""
    shallow = np.outer(places, scheduler.weights[0] @ steps) + scheduler.biases[0]
    return shallow, np.maximum(shallow, 0) @ scheduler.weights[1].T + scheduler.biases[1]


def between(ends: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The `ends` and the places between the outermost of them, in order, each once."""
    return np.unique(np.concatenate([ends, places[(places > ends[0]) & (places < ends[-1])]]))
