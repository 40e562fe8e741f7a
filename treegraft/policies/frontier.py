"""Which nodes are grown next: after a layer, and by a call of the strong drafter (TreeGraft, arXiv 2608.26112)."""

from __future__ import annotations

import numpy as np

from treegraft.drafters.base import Growth
from treegraft.policies.base import highest
from treegraft.tree import DraftTree


def next_frontier(tree: DraftTree, growth: Growth, layer: int, k: int) -> np.ndarray:
    """Candidates by (longer match, score, older), each once; the first layer keeps all of them, later ones `k`."""
    order = np.lexsort((growth.candidates, -tree.score[growth.candidates], -growth.match))
    ranked = growth.candidates[order]
    _, first = np.unique(ranked, return_index=True)
    ranked = ranked[np.sort(first)]
    return ranked if layer == 1 else ranked[:k]


def reselect(tree: DraftTree, frontier: np.ndarray, lookback: int, k: int,
             left_out: np.ndarray) -> tuple[np.ndarray, int]:
    """The k best nodes by score at the frontier's depths and up to `lookback` levels above each, and how many there
    were to choose from. The nodes `left_out` are not chosen."""
    wanted = np.zeros(int(tree.depth.max()) + 1, bool)
    wanted[np.maximum(tree.depth[frontier][:, None] - np.arange(lookback + 1), 0)] = True
    chosen = wanted[tree.depth]
    chosen[left_out] = False
    pool = np.flatnonzero(chosen)
    return highest(tree, pool, k), len(pool)
