"""SpecExec: very large draft trees, grown best first, for targets whose forward costs much whatever its size.

arXiv 2406.02532: a target that is read from the host's memory or disk verifies thousands of nodes in the time of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from treegraft.policies.base import MAX_NODES, Policy, Role, Round, highest
from treegraft.policies.offers import Offers, ask, take
from treegraft.settings import setting
from treegraft.trace.records import NATS, Gate
from treegraft.tree import ROOT, DraftTree

DECAY = round(math.log(0.95) * NATS)
"""Added to a path's score for every level: a drafted token is accepted less often than the drafter thinks."""

POOL = 4
"""Nodes that may be drafted for each that is verified; where they are used up, drafting ends."""


@dataclass
class SpecExec(Policy):
    """Every layer expands the most probable nodes that were not expanded yet, wherever in the tree they are.

    A child joins the tree if it is among the `budget` best of the tree and all children offered with it. Drafting ends
    where no offered child is better than the worst of the `budget` best nodes. Scores hold a penalty of log 0.95 a
    level. The defaults are those of the paper's code, which sweeps the budget from 16 to 4096.
    """

    name = "specexec"
    roles = (Role("drafter", "gives the probabilities that the tree grows by"),)

    budget: int = setting(256, "Drafted nodes that the target verifies in a round.", low=1,
                          high=(MAX_NODES - 1) // POOL)
    beams: int = setting(128, "Nodes expanded in a layer.", low=1, high=1024)
    width: int = setting(32, "Children offered below a node.", low=1, high=64)
    depth: int = setting(32, "Most layers drafted in a round, one drafter forward each.", low=1, high=128)

    @property
    def capacity(self) -> int:
        return 1 + POOL * self.budget

    def draft(self, round: Round) -> None:
        tree, drafter = round.tree, round.drafters[0]
        frontier = expanded = np.array([ROOT])
        for layer in range(1, self.depth + 1):
            offers = ask(round, drafter, frontier, self.width)
            if len(offers) == 0:
                break
            offers = replace(offers, score=offers.score + DECAY)
            worst = self._worst_kept(tree)
            stop = worst is not None and offers.score.max() <= worst
            take(round, drafter, layer, offers, offers.best(0 if stop else self._joining(tree, offers)))
            if worst is not None:
                round.events.append(Gate(layer=layer, measure="best offered log-prob", stop=bool(stop),
                                         value=float(offers.score.max() / NATS), threshold=float(worst / NATS)))
            frontier = self._frontier(tree, expanded)
            if stop or len(frontier) == 0 or tree.room == 0:
                break
            expanded = np.append(expanded, frontier)
        round.prune(self.budget)

    def _worst_kept(self, tree: DraftTree) -> int | None:
        """The worst score of the `budget` best nodes, None while there are fewer."""
        return int(np.sort(tree.score[1:])[-self.budget]) if tree.size > self.budget else None

    def _joining(self, tree: DraftTree, offers: Offers) -> int:
        """How many offers are among the `budget` best of the tree and the offers; these are the best ones."""
        scores = np.append(tree.score[1:], offers.score)
        if len(scores) <= self.budget:
            return len(offers)
        return int((offers.score >= np.sort(scores)[-self.budget]).sum())

    def _frontier(self, tree: DraftTree, expanded: np.ndarray) -> np.ndarray:
        """The best `beams` nodes that were not expanded; what lies below others could not be kept."""
        nodes = highest(tree, np.arange(1, tree.size), self.budget)
        return nodes[~np.isin(nodes, expanded)][: self.beams]
