"""Policies that draft by retrieval alone: one drafter grows the whole tree at once, and no model drafts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Round
from treegraft.settings import setting
from treegraft.tree import ROOT


@dataclass
class Retrieval(Policy):
    """Base of the policies of one growth below the root. The drafter fills the budget and no more."""

    budget: int = setting(63, "Drafted nodes that the target verifies in a round.", low=1, high=1023)

    @property
    def capacity(self) -> int:
        return 1 + self.budget

    def draft(self, round: Round) -> None:
        round.expand(round.drafters[0], np.array([ROOT]), 1, self.budget)
        round.prune(self.budget)
