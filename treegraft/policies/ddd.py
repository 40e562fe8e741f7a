"""Dynamic depth decoding: EAGLE-2, stopped where the beam has lost its probability (DDD, arXiv 2409.00142)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from treegraft.policies.base import Policy, Role, Round, highest
from treegraft.settings import SettingError, setting
from treegraft.trace.records import NATS, Gate
from treegraft.tree import ROOT


@dataclass
class Ddd(Policy):
    """EAGLE-2's growth; after some layers the total probability of the beam's paths decides whether drafting goes on.

    The beam are the `top_k` nodes to be expanded next. The paper's measure is the log of its mass, and its threshold is
    not published. The default rests on this: one more layer adds about `mass` accepted tokens; where a drafter forward
    costs an eighth of a target forward, and a round of seven layers brings five tokens, a token costs 0.37 target
    forwards, and a layer pays for itself down to a mass of about a third.
    """

    name = "ddd"
    roles = (Role("drafter", "gives the probabilities that the tree grows by"),)
    reranks = True

    budget: int = setting(63, "Drafted nodes that the target verifies in a round.", low=1, high=1023)
    top_k: int = setting(10, "Nodes expanded a layer, and children drafted for each.", low=1, high=64)
    depth: int = setting(11, "Most layers drafted in a round, one drafter forward each.", low=1, high=32)
    checks: str = setting("5,7,9", "Layers after which the beam's mass is looked at, such as 5,7,9.")
    threshold: float = setting(0.35, "Stop where the beam's paths have less than this probability in all.",
                               low=0.0, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"\d{1,2}(,\d{1,2})*", self.checks):
            raise SettingError(f"checks was {self.checks!r}; allowed: layers with commas between them, such as 5,7,9.")
        self._checks = {int(number) for number in self.checks.split(",")}

    @property
    def capacity(self) -> int:
        return 1 + self.top_k + (self.depth - 1) * self.top_k**2

    def draft(self, round: Round) -> None:
        frontier = np.array([ROOT])
        for layer in range(1, self.depth + 1):
            growth = round.expand(round.drafters[0], frontier, layer, self.top_k)
            frontier = highest(round.tree, growth.candidates, self.top_k)
            if len(frontier) == 0 or (layer in self._checks and layer < self.depth
                                      and self._stops(round, layer, frontier)):
                break
        round.prune(self.budget)

    def _stops(self, round: Round, layer: int, beam: np.ndarray) -> bool:
        mass = float(np.exp(round.tree.score[beam] / NATS).sum())
        stop = mass < self.threshold
        round.events.append(Gate(layer=layer, measure="beam mass", value=mass, threshold=self.threshold, stop=stop))
        return stop
