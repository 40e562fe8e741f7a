"""DFlash: a whole block of tokens in one drafter forward, verified as a chain (arXiv 2602.06036)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round
from treegraft.settings import setting
from treegraft.tree import ROOT

BLOCK_ROLE = Role("drafter", "fills the block, as DFlash drafters do", scores_tokens=None, kinds=("block",))


@dataclass
class Block(Policy):
    """Block drafting: one drafter forward fills the next `length` tokens at once, each with its own favourite.

    The places do not know of one another, so later ones are right less often than a chain's.
    """

    name = "block"
    roles = (BLOCK_ROLE,)

    length: int = setting(15, "Tokens of the block that are verified in a round; a drafter with a smaller block gives "
                              "fewer.", low=1, high=255)

    @property
    def capacity(self) -> int:
        return 1 + self.length

    def draft(self, round: Round) -> None:
        round.expand(round.drafters[0], np.array([ROOT]), 1, self.length)
        round.prune(self.length)
