"""Drafting by copying alone: TreeGraft's growth loop with its weak drafter in every layer (arXiv 2608.26112)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.frontier import next_frontier
from treegraft.settings import setting
from treegraft.tree import ROOT


@dataclass
class Lookup(Policy):
    """Grow the tree from spans copied out of the context; no model drafts."""

    name = "lookup"
    roles = (Role("drafter", "copies from the context", scores_tokens=False, kinds=("lookup",)),)
    reranks = True

    budget: int = setting(63, "Drafted nodes that the target verifies in a round.", low=1, high=1023)
    top_k: int = setting(10, "Next tokens that a node must know to be expanded further.", low=1, high=64)
    layers: int = setting(5, "Layers drafted in a round.", low=1, high=16)

    @property
    def capacity(self) -> int:
        return max(self.budget + 1, 1 + self.top_k + self.layers * self.top_k**2)

    def draft(self, round: Round) -> None:
        frontier = np.array([ROOT])
        for layer in range(1, self.layers + 1):
            growth = round.expand(round.drafters[0], frontier, layer, self.top_k)
            frontier = next_frontier(round.tree, growth, layer, self.top_k)
            if len(frontier) == 0 or growth.final or round.tree.room == 0:
                break
        round.prune(self.budget)
