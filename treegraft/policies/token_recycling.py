"""Token Recycling: a static tree, filled from the target's own earlier answers (arXiv 2408.08696)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.templates import Template, from_paths
from treegraft.settings import setting
from treegraft.tree import ROOT

CHILDREN = {
    (): 8,
    (0,): 8, (1,): 4, (2,): 3, (3,): 2, (4,): 1, (5,): 1, (6,): 1, (7,): 1,
    (0, 0): 8, (0, 1): 3, (0, 2): 2, (0, 3): 1, (0, 4): 1, (0, 5): 1, (0, 6): 1, (0, 7): 1,
    (1, 0): 2, (1, 1): 1, (2, 0): 1, (3, 0): 1, (4, 0): 1, (5, 0): 1,
    (0, 0, 0): 5, (0, 0, 1): 2, (0, 0, 2): 1, (0, 0, 3): 1, (0, 0, 4): 1, (0, 1, 0): 1, (0, 2, 0): 1,
    (1, 0, 0): 1, (2, 0, 0): 1, (3, 0, 0): 1,
    (0, 0, 0, 0): 3, (0, 0, 0, 1): 1, (0, 0, 0, 2): 1, (0, 0, 1, 0): 1, (0, 1, 0, 0): 1, (1, 0, 0, 0): 1,
    (0, 0, 0, 0, 0): 2, (0, 0, 0, 1, 0): 1,
}
"""The paper's tree, called 2.2.2 by its authors: how many successors are taken below each path of ranks, the best
first; 80 nodes in all, 8, 21, 25, 15, 8 and 3 by depth."""

TEMPLATE: Template = from_paths([(*path, rank) for path, count in CHILDREN.items() for rank in range(count)])


@dataclass
class TokenRecycling(Policy):
    """Fill a static tree of 80 nodes, level by level, with what the target expected after the same tokens before.

    Where a row knows too few successors, the subtree is left out. A `budget` below 80 keeps the nodes with the best
    ranks along their paths.
    """

    name = "token-recycling"
    roles = (Role("drafter", "knows the target's next tokens after single tokens", scores_tokens=False,
                  kinds=("successors",)),)
    reranks = True

    budget: int = setting(TEMPLATE.size, "Drafted nodes that the target verifies in a round.", low=1,
                          high=TEMPLATE.size)

    @property
    def capacity(self) -> int:
        return TEMPLATE.size + 1

    def draft(self, round: Round) -> None:
        drafter, place = round.drafters[0], np.full(TEMPLATE.size + 1, -1)
        place[ROOT] = ROOT
        for depth in range(1, len(TEMPLATE.levels) + 1):
            level = np.flatnonzero(TEMPLATE.depth == depth)
            parents = place[TEMPLATE.parent[level]]
            level, parents = level[parents >= 0], parents[parents >= 0]
            if len(level) == 0:
                break
            place[level], growth = drafter.follow(round.tree, parents, TEMPLATE.rank[level])
            round.grew(drafter, np.unique(parents), depth, growth)
        round.prune(self.budget)
