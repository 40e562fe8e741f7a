"""A horizontal cascade: strong for the first positions, weak for the later ones (CS Drafting, arXiv 2312.11462)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.frontier import next_frontier
from treegraft.settings import setting
from treegraft.tree import ROOT


@dataclass
class Cascade(Policy):
    """The strong drafter drafts the first `early` layers of a round, the weak one up to `late` layers below them.

    A token counts only if all tokens before it were accepted, so early ones deserve the better drafter. With a `top_k`
    of 1 the draft is a chain, as in the paper; otherwise each layer expands the `top_k` best nodes. The weak drafter
    goes on from what the strong one proposed; nobody reviews that before the target (the paper's vertical cascade).
    """

    name = "cascade"
    roles = (Role("weak", "drafts the later positions", scores_tokens=None,
                  kinds=("lookup", "successors", "eagle3", "lm")),
             Role("strong", "drafts the first positions"))
    reranks = True

    budget: int = setting(63, "Drafted nodes that the target verifies in a round.", low=1, high=1023)
    top_k: int = setting(1, "Nodes expanded a layer, and children drafted for each; 1 drafts a chain.", low=1, high=64)
    early: int = setting(3, "Layers of the strong drafter, one forward each.", low=1, high=16)
    late: int = setting(8, "Layers of the weak drafter after them.", low=0, high=16)

    @property
    def capacity(self) -> int:
        return max(self.budget + 1, 1 + self.top_k + (self.early + self.late) * self.top_k**2)

    def draft(self, round: Round) -> None:
        weak, strong = round.drafters
        frontier = np.array([ROOT])
        for layer in range(1, self.early + self.late + 1):
            drafter = strong if layer <= self.early else weak
            growth = round.expand(drafter, frontier, layer, self.top_k)
            frontier = next_frontier(round.tree, growth, layer, self.top_k)
            if len(frontier) == 0 or growth.final or round.tree.room == 0:
                break
        round.prune(self.budget)
