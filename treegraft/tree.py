"""The draft tree: the only owner of node numbering, masks, positions, paths and selection.

Node 0 is the root. Nodes are numbered in order of birth, so a parent always comes before its children; the children of
one node never share a token. `mask[i, j]` says that j is i or an ancestor of i, which is what node i may attend to, and
a node's position in the text is the context length - 1 + its depth.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

ROOT = 0
NEG_INF = -(1 << 60)
"""Score of a node that no drafter has scored; sums stay at this value."""

FIRST_ROWS = 512
"""Nodes that memory is set aside for at first; the tree doubles it when it grows beyond."""


def path_scores(parent: np.ndarray, logprob: np.ndarray) -> np.ndarray:
    """Cumulative scores of children: parent score + log-prob, in 1e-5 nats, with minus infinity absorbing."""
    total = parent + logprob
    return np.where((parent <= NEG_INF) | (logprob <= NEG_INF), NEG_INF, total)


def closure(parent: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """The mask [nodes, nodes] of a tree: who is an ancestor of whom, or the node itself."""
    mask = np.eye(len(parent), dtype=bool)
    for level in range(1, int(depth.max()) + 1):
        nodes = np.flatnonzero(depth == level)
        mask[nodes] |= mask[parent[nodes]]
    return mask


class DraftTree:
    """A growing tree of drafted tokens under one root, as NumPy columns of length `size`.

    Columns: `token`, `parent` (-1 for the root), `depth`, `origin` (drafter id, -1 for the root), `score` (cumulative
    log-prob in 1e-5 nats), `proposers` (bit set of drafter ids). `mask` is [size, size], ancestor-or-self.
    `context` counts the committed tokens including the root. `capacity` is the most nodes the tree will hold.
    Columns are views: writing into `score` or `proposers` changes the tree.
    """

    def __init__(self, root: int, context: int, capacity: int) -> None:
        self.context = context
        self.capacity = capacity
        self.size = 1
        rows = min(capacity, FIRST_ROWS)
        self._columns = np.zeros((6, rows), np.int64)
        self._columns[:, ROOT] = (root, -1, 0, -1, 0, 0)
        self._nodes: dict[int, int] = {}
        self._mask: np.ndarray | None = np.zeros((rows, rows), bool)
        self._mask[ROOT, ROOT] = True

    @property
    def token(self) -> np.ndarray:
        return self._columns[0, : self.size]

    @property
    def parent(self) -> np.ndarray:
        return self._columns[1, : self.size]

    @property
    def depth(self) -> np.ndarray:
        return self._columns[2, : self.size]

    @property
    def origin(self) -> np.ndarray:
        return self._columns[3, : self.size]

    @property
    def score(self) -> np.ndarray:
        return self._columns[4, : self.size]

    @property
    def proposers(self) -> np.ndarray:
        return self._columns[5, : self.size]

    @property
    def mask(self) -> np.ndarray:
        return closure(self.parent, self.depth) if self._mask is None else self._mask[: self.size, : self.size]

    @property
    def positions(self) -> np.ndarray:
        """Place of each node's token in the text, from 0."""
        return self.depth + (self.context - 1)

    @property
    def room(self) -> int:
        """How many nodes can still be added."""
        return self.capacity - self.size

    def add(self, parents: np.ndarray, tokens: np.ndarray, scores: np.ndarray, drafter: int) -> np.ndarray:
        """Make sure that each (parent, token) pair has a node, and return the nodes' ids, aligned with the pairs.

        New nodes get the cumulative `scores` and `drafter` as origin. Pairs that exist keep their node, score and
        origin and only gain the drafter among their proposers. New pairs beyond the capacity are left out, marked -1.
        Pairs must differ from one another, and parents must exist already.
        """
        keys = parents.astype(np.int64) << 32 | tokens
        nodes = np.array([self._nodes.get(key, -1) for key in keys.tolist()], np.int64)
        self._columns[5, nodes[nodes >= 0]] |= 1 << drafter
        fresh = np.flatnonzero(nodes < 0)[: self.room]
        nodes[fresh] = self.append(parents[fresh], tokens[fresh], scores[fresh], drafter)
        return nodes

    def append(self, parents: Sequence[int] | np.ndarray, tokens: Sequence[int] | np.ndarray,
               scores: Sequence[int] | np.ndarray, drafter: int) -> np.ndarray:
        """Append new nodes in the given order and return their ids; a parent may be a node of the same call.

        The caller vouches that every (parent, token) pair is new, that parents come first, and that `room` suffices.
        """
        start, stop = self.size, self.size + len(parents)
        ids = np.arange(start, stop)
        if len(ids) == 0:
            return ids
        self._reserve(stop)
        token, parent, depth, origin, score, proposers = self._columns[:, start:stop]
        token[:], parent[:], origin[:], score[:], proposers[:] = tokens, parents, drafter, scores, 1 << drafter
        self._nodes.update(zip((parent << 32 | token).tolist(), range(start, stop), strict=True))
        old = parent < start
        depth[old] = self._columns[2, parent[old]] + 1
        self._mask[ids[old]] = self._mask[parent[old]]
        self._mask[ids, ids] = True
        for node, above in zip(ids[~old].tolist(), parent[~old].tolist(), strict=True):
            self._columns[2, node] = self._columns[2, above] + 1
            self._mask[node] |= self._mask[above]
        self.size = stop
        return ids

    def _reserve(self, size: int) -> None:
        """Make memory for `size` nodes."""
        rows = self._columns.shape[1]
        if size <= rows:
            return
        more = min(self.capacity, max(size, 2 * rows)) - rows
        self._columns = np.pad(self._columns, ((0, 0), (0, more)))
        self._mask = np.pad(self._mask, (0, more))

    def close(self) -> None:
        """Take no more nodes, and give back memory: what was set aside for them, and the mask, which is worked out anew
        whenever it is asked for."""
        self.capacity = self.size
        self._columns, self._mask = self._columns[:, : self.size].copy(), None

    def copy(self) -> DraftTree:
        """A tree that grows on its own."""
        other = copy.copy(self)
        other._columns, other._nodes = self._columns.copy(), self._nodes.copy()
        other._mask = self.mask if self._mask is None else self._mask.copy()
        return other

    def child(self, node: int, token: int) -> int:
        """The child of `node` that holds `token`, -1 where there is none."""
        return self._nodes.get(node << 32 | token, -1)

    def children(self, node: int) -> np.ndarray:
        return np.flatnonzero(self.parent == node)

    def path(self, node: int) -> np.ndarray:
        """Ids from the root to `node`, both included."""
        found = [node]
        while found[-1] != ROOT:
            found.append(int(self.parent[found[-1]]))
        return np.array(found[::-1])

    def best(self, budget: int) -> np.ndarray:
        """The root and up to `budget` best nodes with all their ancestors, ascending.

        Nodes are taken by (score, shallower, older); a node whose missing ancestors do not fit is passed over, and
        later ones may still fit (TreeGraft, final selection).
        """
        if self.size - 1 <= budget:
            return np.arange(self.size)
        order = 1 + np.lexsort((self.depth[1:], -self.score[1:]))
        rank = np.zeros(self.size, np.int64)
        rank[order] = np.arange(1, self.size)
        if np.all(rank[self.parent[1:]] < rank[1:]):
            return np.sort(np.append(ROOT, order[:budget]))
        return self._best_closed(order, budget)

    def _best_closed(self, order: np.ndarray, budget: int) -> np.ndarray:
        """`best` where a node may outrank its parent: each node brings its missing ancestors along."""
        parent = self.parent.tolist()
        kept = {ROOT}
        for node in order.tolist():
            chain = []
            while node not in kept:
                chain.append(node)
                node = parent[node]
            if len(kept) + len(chain) <= budget + 1:
                kept.update(chain)
        return np.array(sorted(kept))
