"""Acceptance rules: which drafted tokens the target's answers confirm."""

from __future__ import annotations

import numpy as np

from treegraft.tree import ROOT, DraftTree


def accept_greedy(tree: DraftTree, order: np.ndarray, argmax: np.ndarray) -> tuple[np.ndarray, int]:
    """Walk down while a verified child holds the target's favourite token (SpecInfer, arXiv 2305.09781, greedy case).

    `order` are the verified nodes and `argmax` the target's favourite next token after each. Returns the accepted path
    (node ids, root left out) and the bonus token: the favourite after the last accepted node.
    """
    parent, token = tree.parent[order], tree.token[order]
    favourite = dict(zip(order.tolist(), argmax.tolist(), strict=True))
    path = []
    node = ROOT
    while True:
        bonus = favourite[node]
        confirmed = order[(parent == node) & (token == bonus)]
        if len(confirmed) == 0:
            return np.array(path, np.int64), bonus
        node = int(confirmed[0])
        path.append(node)
