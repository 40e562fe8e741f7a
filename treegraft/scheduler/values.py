"""TreeGraft's offline value system: what every call and skip is worth, at every position of a known text.

The value of a state is minus the least time, in milliseconds, in which the rest of the text can be written from there:
draft and verify this round's tree, then go on behind the tokens that it brings. It follows by backward induction over
the output. The text (arXiv 2608.26112) leaves the exact definition open; this is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treegraft.analysis.recorded import NotRecorded, RecordedDrafter, caught_up
from treegraft.analysis.whatif import Grown, Replay, Verified, WhatIf
from treegraft.policies import TreeGraft
from treegraft.scheduler.dataset import Dataset
from treegraft.scheduler.features import FEATURES
from treegraft.trace.records import TARGET, CostCurve

Choices = tuple[bool, ...]
"""Calls (True) and skips of a round's layers, in order."""


@dataclass(frozen=True)
class Leaf:
    """One way to spend a round: its `choices`, what it costs, and how many tokens it brings."""

    choices: Choices
    milliseconds: float
    taken: int


class Values:
    """The values along one run that was recorded at level `exhaustive`.

    `best[t]` is the least time in milliseconds to write what follows output token t. Errors: `NotRecorded` for a run
    of another policy, and one that cannot be replayed or has no cost curves.
    """

    def __init__(self, whatif: WhatIf, policy: TreeGraft | None = None) -> None:
        self.whatif = whatif
        self.policy = policy or whatif.policy
        if not isinstance(self.policy, TreeGraft):
            raise NotRecorded(f"a trace of the policy {self.policy.name} has no calls to decide on; give traces that "
                              "`treegraft values` recorded")
        models = {TARGET, *(one.id for one in whatif.drafters if isinstance(one, RecordedDrafter))}
        if not models <= whatif.curves.keys() or whatif.constants.clock is None:
            raise NotRecorded("the trace has no clock or lacks cost curves, which values need; record it with "
                              "`treegraft values`")
        self.places = len(whatif.output) - 1
        self.leaves = [self._leaves(place) for place in range(self.places)]
        self.best = np.zeros(self.places + 1)
        for place in reversed(range(self.places)):
            self.best[place] = min(self._time(place, leaf) for leaf in self.leaves[place])

    def _leaves(self, place: int) -> list[Leaf]:
        """Every different round at a position."""
        found: list[Leaf] = []
        for choices in self.whatif.grow_every(place, self.policy):
            grown = self.whatif.grow(place, self.policy, choices)
            verified = self.whatif.verify(place, self.policy, choices)
            found.append(Leaf(grown.calls, self._cost(place, grown, verified), verified.taken))
        return found

    def _cost(self, place: int, grown: Grown, verified: Verified) -> float:
        """Milliseconds of a round: its forwards, the host's time, and what the drafters have to catch up with of the
        tokens that it commits."""
        whatif, context = self.whatif, len(self.whatif.prompt) + place + 1
        forwards = [(TARGET, len(verified.kept))]
        late = 0.0
        for drafter in whatif.drafters:
            if isinstance(drafter, RecordedDrafter):
                forwards += [(drafter.id, tokens) for tokens in grown.passes[drafter.id]]
                before = context - 1 - (drafter.kind == "eagle3")
                read, path = grown.read[drafter.id], verified.path[: verified.taken - 1]
                _, cached = caught_up(drafter.kind, before, context, read, path)
                behind, _ = caught_up(drafter.kind, cached, context + verified.taken, {0}, ())
                late += behind * microseconds_per_token(whatif.curves[drafter.id])
        return (whatif.estimate(forwards) + late) / 1000

    def _time(self, place: int, leaf: Leaf) -> float:
        return leaf.milliseconds + self.best[place + leaf.taken]

    def states(self, place: int) -> dict[Choices, tuple[float, float]]:
        """The decision states of a position: for the choices so far, the value of a call and of a skip (ms)."""
        best: dict[Choices, float] = {}
        for leaf in self.leaves[place]:
            for length in range(1, len(leaf.choices) + 1):
                prefix = leaf.choices[:length]
                best[prefix] = max(best.get(prefix, -np.inf), -self._time(place, leaf))
        return {prefix[:-1]: (value, best[*prefix[:-1], False]) for prefix, value in best.items() if prefix[-1]}

    def best_choices(self, place: int) -> Choices:
        """The choices that lead to the least time: the oracle's."""
        return min(self.leaves[place], key=lambda leaf: self._time(place, leaf)).choices

    @cached_property
    def oracle(self) -> Replay:
        """The run with the best choices at every position that it comes to."""
        layers = self.policy.layers
        return self.whatif.replay(self.policy, lambda place: padded(self.best_choices(place), layers))

    def fixed(self, choices: Choices) -> Replay:
        """The run with the same choices in every round."""
        return self.whatif.replay(self.policy, lambda place: padded(choices, self.policy.layers))

    def rows(self) -> Iterator[tuple[int, int, list[float], float]]:
        """For every decision state: position, layer (from 1), features, and the milliseconds that a call saves."""
        for place in range(self.places):
            for before, (call, skip) in self.states(place).items():
                grown = self.whatif.grow(place, self.policy, padded(before, self.policy.layers))
                seen = grown.decisions[len(before)].features
                yield place, len(before) + 1, [seen[name] for name in FEATURES], call - skip

    def dataset(self, prompt: int) -> Dataset:
        """The decision states of the run as training rows; `prompt` is its number."""
        rows = list(self.rows())
        place, depth, features, margin = zip(*rows, strict=True) if rows else ((), (), (), ())
        possible = 2**self.policy.layers - 1
        return Dataset(
            prompt=np.full(len(rows), prompt), position=np.array(place, np.int64), depth=np.array(depth, np.int64),
            features=np.array(features, float).reshape(-1, len(FEATURES)), margin=np.array(margin, float),
            impossible=self.places * possible - len(rows))


def padded(choices: Choices, layers: int) -> Choices:
    """Choices for all layers: skips follow."""
    return choices + (False,) * (layers - len(choices))


def microseconds_per_token(curve: CostCurve) -> float:
    """What one more token in a forward costs."""
    (fewest, short), (most, long) = curve.points[0], curve.points[-1]
    return max(0.0, (long - short) / (most - fewest)) if most > fewest else 0.0
