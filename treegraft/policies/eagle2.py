"""EAGLE-2: expand the best leaves layer by layer, then rerank everything that was drafted (arXiv 2406.16858)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round, highest
from treegraft.settings import setting
from treegraft.tree import ROOT


@dataclass
class Eagle2(Policy):
    """Dynamic tree: expand the `top_k` most probable nodes of each layer, then keep the `budget` best of all.

    The value of a node is the product of the drafter's probabilities along its path (section 4.1 of the paper).
    """

    name = "eagle2"
    roles = (Role("drafter", "gives the probabilities that the tree grows by"),)
    reranks = True

    budget: int = setting(63, "Drafted nodes that the target verifies in a round.", low=1, high=1023)
    top_k: int = setting(10, "Nodes expanded a layer, and children drafted for each.", low=1, high=64)
    depth: int = setting(5, "Layers drafted in a round, one drafter forward each.", low=1, high=32)

    @property
    def capacity(self) -> int:
        return 1 + self.top_k + (self.depth - 1) * self.top_k**2

    def draft(self, round: Round) -> None:
        frontier = np.array([ROOT])
        for layer in range(1, self.depth + 1):
            growth = round.expand(round.drafters[0], frontier, layer, self.top_k)
            frontier = highest(round.tree, growth.candidates, self.top_k)
            if len(frontier) == 0:
                break
        round.prune(self.budget)
