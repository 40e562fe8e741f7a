"""What the scheduler looks at before a layer: 17 numbers, none of which needs a forward (arXiv 2608.26112)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treegraft.trace.records import NATS, Clock
from treegraft.tree import NEG_INF, DraftTree

CALL_BITS = 5
"""Layers whose calls are told one by one."""

FEATURES = (
    "prompt_length", "target_ms", "strong_ms", "cost_ratio", "layer", "call_share",
    *(f"called_{layer}" for layer in range(1, CALL_BITS + 1)),
    "frontier_depth", "frontier_leaves", "collapse_debt", "from_past_layers", "overlap", "reselected_score",
)
"""Their names, in the order that the network takes them."""

SHORTEST_MS = 1e-6


def features(tree: DraftTree, frontier: np.ndarray, reselected: np.ndarray, *, layer: int, layers: int,
             called: Sequence[int], prompt: int, clock: Clock) -> np.ndarray:
    """The features [17] before `layer` of `layers`.

    `reselected` is the frontier that a call would choose by the present scores; `called` are the layers that called in
    this round. Times are in milliseconds, scores in nats.
    """
    target, strong = (max(time / 1000, SHORTEST_MS) for time in (clock.target, clock.strong))
    depth, others = tree.depth[frontier], tree.depth[reselected]
    score = tree.score[reselected]
    finite = score[score > NEG_INF]
    return np.array([
        np.log1p(prompt), target, strong, np.log(target / strong), layer / layers, len(called) / layers,
        *(float(bit in called) for bit in range(1, CALL_BITS + 1)),
        depth.mean(),
        1 - member(frontier, tree.parent[1:], tree.size).mean(),
        max(0.0, depth.mean() - others.mean()) if len(others) else 0.0,
        (~member(others, depth, tree.size)).mean() if len(others) else 0.0,
        member(reselected, frontier, tree.size).mean() if len(others) else 0.0,
        finite.mean() / NATS if len(finite) else 0.0,
    ])


def member(values: np.ndarray, others: np.ndarray, size: int) -> np.ndarray:
    """Which of `values` are among `others`, all in 0..size-1: a faster `np.isin` for few numbers."""
    marked = np.zeros(size, bool)
    marked[others] = True
    return marked[values]
