"""Schedulers with random weights, and data sets whose labels follow a known rule."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from treegraft.scheduler.dataset import Dataset
from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.network import WIDTHS, Scheduler

LEAVES = FEATURES.index("frontier_leaves")
OVERLAP = FEATURES.index("overlap")
CLOCK = [FEATURES.index(name) for name in ("target_ms", "strong_ms", "cost_ratio")]


def random_scheduler(seed: int = 0) -> Scheduler:
    random = np.random.default_rng(seed)
    return Scheduler(
        name="example", mean=random.normal(size=17), std=random.uniform(0.5, 2, 17), margin_mean=-1.5, margin_std=3.0,
        weights=tuple(random.normal(size=(after, before)) for before, after in pairwise(WIDTHS)),
        biases=tuple(random.normal(size=after) for after in WIDTHS[1:]), provenance={"prompts": 3})


def rows(prompts: int, each: int, seed: int = 0) -> Dataset:
    """Random decisions of `prompts` prompts, `each` of one; the clock is the same in all, and every margin 0."""
    random = np.random.default_rng(seed)
    count = prompts * each
    depth = random.integers(1, 6, count)
    seen = random.uniform(size=(count, len(FEATURES)))
    seen[:, FEATURES.index("layer")] = depth / 5
    seen[:, CLOCK] = (31.0, 17.0, np.log(31 / 17))
    return Dataset(prompt=np.repeat(np.arange(prompts), each), position=np.tile(np.arange(each), prompts), depth=depth,
                   features=seen, margin=np.zeros(count), impossible=4)


def with_margin(dataset: Dataset, margin: np.ndarray) -> Dataset:
    return Dataset(dataset.prompt, dataset.position, dataset.depth, dataset.features, margin, dataset.impossible)


def ruled(prompts: int, each: int, seed: int = 0) -> Dataset:
    """A call saves time where many frontier nodes are leaves, unless it would choose the same frontier again."""
    made = rows(prompts, each, seed)
    noise = np.random.default_rng(seed + 1000).normal(size=len(made))
    leaves, overlap = made.features[:, LEAVES], made.features[:, OVERLAP]
    return with_margin(made, 30 * leaves * (overlap < 0.6) - 9 + 3 * noise)
