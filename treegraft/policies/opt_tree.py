"""OPT-Tree: the tree with the greatest expected acceptance, drafted while that still grows (arXiv 2406.17276)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.offers import ask, take
from treegraft.settings import setting
from treegraft.trace.records import NATS, Gate
from treegraft.tree import ROOT, DraftTree


@dataclass
class OptTree(Policy):
    """Keep the `budget` best nodes of each layer; stop once a layer adds too little to the expected acceptance.

    The expected number of accepted tokens is the sum of the path products of the tree's nodes. Products fall along a
    path, so the `budget` best nodes of all are connected, and no other tree of that size expects more (section 3).
    """

    name = "opt-tree"
    roles = (Role("drafter", "gives the probabilities that the tree grows by"),)

    budget: int = setting(50, "Drafted nodes that the target verifies, and nodes kept in each layer.", low=1, high=1023)
    threshold: float = setting(0.5, "Stop once a layer adds no more than this many expected tokens.", low=0.0, high=1.0)
    depth: int = setting(10, "Most layers drafted in a round, one drafter forward each.", low=1, high=64)

    @property
    def capacity(self) -> int:
        return 1 + self.budget * self.depth

    def draft(self, round: Round) -> None:
        drafter, frontier, before = round.drafters[0], np.array([ROOT]), 0.0
        for layer in range(1, self.depth + 1):
            offers = ask(round, drafter, frontier, self.budget)
            if len(offers) == 0:
                break
            frontier = take(round, drafter, layer, offers, offers.best(self.budget))
            if layer == self.depth:
                break
            expected = expected_acceptance(round.tree, self.budget)
            gain, before = expected - before, expected
            stop = gain <= self.threshold
            round.events.append(Gate(layer=layer, measure="expected gain", value=gain, threshold=self.threshold,
                                     stop=stop))
            if stop:
                break
        round.prune(self.budget)


def expected_acceptance(tree: DraftTree, budget: int) -> float:
    """Accepted tokens to be expected of the best `budget` nodes: the sum of their path products."""
    best = np.sort(tree.score[1:])[::-1][:budget]
    return float(np.exp(best / NATS).sum())
