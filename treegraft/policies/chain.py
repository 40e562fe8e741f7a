"""A chain: the drafter's favourite token, again and again (arXiv 2211.17192, drafted greedily)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round
from treegraft.settings import setting
from treegraft.tree import ROOT


@dataclass
class Chain(Policy):
    """Classic speculative decoding: one branch of `length` tokens, each the drafter's most probable next token."""

    name = "chain"
    roles = (Role("drafter", "drafts the chain"),)

    length: int = setting(5, "Tokens drafted in a round, one drafter forward each.", low=1, high=64)

    @property
    def capacity(self) -> int:
        return 1 + self.length

    def draft(self, round: Round) -> None:
        tip = np.array([ROOT])
        for layer in range(1, self.length + 1):
            tip = round.expand(round.drafters[0], tip, layer, 1).candidates
            if len(tip) == 0:
                break
        round.prune(self.length)
