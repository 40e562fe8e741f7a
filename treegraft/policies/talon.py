"""TALON: grow until the budget is spent, deep where the drafter is sure and wide where it is not (arXiv 2601.07353)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.offers import Offers, ask, take
from treegraft.settings import setting
from treegraft.trace.records import NATS
from treegraft.tree import ROOT


@dataclass
class Talon(Policy):
    """Each level keeps the children that are at least `mu` times as probable as its best one, until `budget` nodes are
    drafted.

    The first level is a plain top k, which guards against a drafter that is too sure. Where more children pass than the
    budget has left, the best of them are kept. All that is kept is expanded, and verified: nothing is drafted in vain.
    """

    name = "talon"
    roles = (Role("drafter", "gives the probabilities that the tree grows by"),)

    budget: int = setting(60, "Nodes drafted and verified in a round.", low=1, high=1023)
    top_k: int = setting(10, "Nodes of the first level, and children offered below every node.", low=1, high=64)
    mu: float = setting(0.03, "Least path product that a node needs, relative to its level's best.", low=0.0, high=1.0)

    @property
    def capacity(self) -> int:
        return 1 + self.budget

    def draft(self, round: Round) -> None:
        drafter, frontier, layer = round.drafters[0], np.array([ROOT]), 0
        while round.tree.room:
            layer += 1
            offers = ask(round, drafter, frontier, self.top_k)
            if len(offers) == 0:
                break
            passed = self.top_k if layer == 1 else self._passing(offers)
            frontier = take(round, drafter, layer, offers, offers.best(min(passed, round.tree.room)))
        round.prune(self.budget)

    def _passing(self, offers: Offers) -> int:
        """How many offers lie within `mu` of the best one; these are the best ones."""
        least = offers.score.max() + math.log(self.mu) * NATS if self.mu else -math.inf
        return int((offers.score >= least).sum())
