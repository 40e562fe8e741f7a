"""Lookahead decoding (arXiv 2402.02057)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Role, Round
from treegraft.policies.retrieval import Retrieval
from treegraft.settings import setting
from treegraft.tree import ROOT

BRANCHES = 2
"""N-grams from the pool, then the window."""


@dataclass
class Lookahead(Retrieval):
    """The target corrects a window of guessed tokens while it verifies; n-grams that came of it are drafted."""

    name = "lookahead"
    roles = (Role("drafter", "keeps a window and a pool of n-grams", scores_tokens=False, kinds=("lookahead",)),)

    budget: int = setting(63, "Nodes that the target reads in a round, those of the window included.", low=1, high=1023)

    def draft(self, round: Round) -> None:
        for layer in range(1, BRANCHES + 1):
            round.expand(round.drafters[0], np.array([ROOT]), layer, self.budget)
        round.prune(self.budget)
