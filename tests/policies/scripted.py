"""A strong drafter whose probabilities are a function of the last token alone."""

from __future__ import annotations

import math

import numpy as np

from treegraft.drafters.base import Committed, Prefilled, ScoringDrafter
from treegraft.trace.records import NATS
from treegraft.tree import DraftTree

TOKENS = 10


def worked_example(token: int) -> list[float]:
    """The probabilities of TreeGraft's worked example: .6, .3, .09 for the three tokens after `token`, modulo 10."""
    chances = [0.01 / 7] * TOKENS
    for step, chance in ((1, 0.6), (2, 0.3), (3, 0.09)):
        chances[(token + step) % TOKENS] = chance
    return chances


class Scripted(ScoringDrafter):
    """Knows `probabilities(token)` of the ten next tokens; `reads` lists the nodes of each of its passes."""

    name = "scripted"

    def __init__(self, id: int = 1, probabilities=worked_example) -> None:
        self.id, self.reads = id, []
        self._units = np.rint(np.log([probabilities(token) for token in range(TOKENS)]) * NATS).astype(np.int64)
        self._read: set[int] = set()

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._read.clear()

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        self._read.clear()

    def limits(self, tree, nodes):
        return ""

    def best(self, tree, nodes, k):
        self._pass(tree, nodes)
        units = self._units[tree.token[nodes]]
        tokens = np.argsort(-units, axis=1, kind="stable")[:, :k]
        return tokens, np.take_along_axis(units, tokens, axis=1)

    def judge(self, tree, nodes, ahead):
        parents = tree.parent[nodes]
        if not self._read.issuperset(parents.tolist()):
            self._pass(tree, np.union1d(parents, ahead))
        return self._units[tree.token[parents], tree.token[nodes]], np.zeros(len(nodes), bool)

    def _pass(self, tree, nodes):
        new = [node for node in np.flatnonzero(tree.mask[nodes].any(0)).tolist() if node not in self._read]
        if new:
            self.reads.append(new)
            self._read.update(new)


def nats(chance: float) -> int:
    return round(math.log(chance) * NATS)
