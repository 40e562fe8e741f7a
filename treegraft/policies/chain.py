"""A chain: the drafter's favourite token, or one drawn from its distribution, again and again (arXiv 2211.17192)."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.drawn import draw_along
from treegraft.policies.templates import Template, from_paths
from treegraft.settings import setting
from treegraft.tree import ROOT


@dataclass
class Chain(Policy):
    """Classic speculative decoding: one branch of `length` tokens, each the drafter's most probable next token.

    Where the target samples, tokens can be drawn from the drafter's distribution instead, as in the paper.
    """

    name = "chain"
    roles = (Role("drafter", "drafts the chain"),)

    length: int = setting(5, "Tokens drafted in a round, one drafter forward each.", low=1, high=64)
    drafting: str = setting("best", "Each token is the drafter's favourite, or drawn from its distribution (iid); that "
                                    "needs a temperature above 0.", choices=("best", "iid"))

    @property
    def capacity(self) -> int:
        return 1 + self.length

    @property
    def drafts(self) -> str:
        return "one" if self.drafting == "iid" else "best"

    def draft(self, round: Round) -> None:
        if self.drafting == "iid":
            draw_along(round, line(self.length), replacement=True)
        else:
            self._draft_favourites(round)

    def _draft_favourites(self, round: Round) -> None:
        tip = np.array([ROOT])
        for layer in range(1, self.length + 1):
            tip = round.expand(round.drafters[0], tip, layer, 1).candidates
            if len(tip) == 0:
                break
        round.prune(self.length)


@functools.cache
def line(length: int) -> Template:
    """The shape of a chain."""
    return from_paths([[0] * depth for depth in range(1, length + 1)])
