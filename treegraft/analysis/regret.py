"""What the decisions of a run cost: each beside the one that saves the most time, by the value system.

Times are estimates in milliseconds, from the measured cost curves and the recorded text. A decision loses what the text
takes longer after it if all later decisions are the best ones; so the losses of a run add up to what it takes longer
than the oracle's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from treegraft.analysis.metrics import ratio
from treegraft.scheduler.report import Decisions, compare
from treegraft.scheduler.values import Choices, Leaf, Values


@dataclass(frozen=True)
class State:
    """A decision state of a position: milliseconds to the end of the text if it calls and if it skips, the best
    decisions following."""

    call: float
    skip: float

    @property
    def saved(self) -> float:
        """Milliseconds that a call saves; negative where it costs time."""
        return self.skip - self.call

    def lost(self, call: bool) -> float:
        """Milliseconds that a choice loses against the better one."""
        return max(0.0, -self.saved if call else self.saved)


@dataclass(frozen=True)
class Position:
    """The decisions that can be made behind output token `place`.

    `states` by the choices before them, `ends` the rounds that they lead to, by all choices. `impossible` counts states
    that do not occur because the round has ended before. `chosen` are the choices of the run's own policy, `best` the
    oracle's, and `lost` the milliseconds between them.
    """

    place: int
    states: Mapping[Choices, State]
    ends: Mapping[Choices, Leaf]
    impossible: int
    chosen: Choices
    best: Choices
    lost: float


def position(values: Values, place: int) -> Position:
    """The decisions at an output position. Errors: `NotRecorded` where the policy's own choice is not known."""
    states = {before: State(-call, -skip) for before, (call, skip) in values.states(place).items()}
    policy, whatif = values.policy, values.whatif
    chosen = whatif.grow(place, policy, whatif.choose(place, policy)).calls
    return Position(
        place=place, states=states, ends={leaf.choices: leaf for leaf in values.leaves[place]},
        impossible=2**policy.layers - 1 - len(states), chosen=chosen, best=values.best_choices(place),
        lost=sum(loss for _, loss in losses(states, chosen)))


def losses(states: Mapping[Choices, State], chosen: Choices) -> list[tuple[State, float]]:
    """Each decision on the way of some choices, and the milliseconds that it loses."""
    return [(states[chosen[:layer]], states[chosen[:layer]].lost(call)) for layer, call in enumerate(chosen)]


@dataclass(frozen=True)
class Verdict:
    """A run's decisions beside the oracle's. `milliseconds` of the run and `best` of the oracle's; `calls` and
    `oracle_calls` of the strong drafter in all rounds of either. `rounds` are the positions where the run's rounds
    begin."""

    decisions: Decisions
    milliseconds: float
    best: float
    calls: int
    oracle_calls: int
    rounds: tuple[Position, ...]

    @property
    def lost(self) -> float:
        """Milliseconds that the run takes longer than the oracle's."""
        return self.milliseconds - self.best

    @property
    def share(self) -> float | None:
        """What is lost, as a share of the run's time."""
        return ratio(self.lost, self.milliseconds)


def verdict(values: Values) -> Verdict | None:
    """The verdict on the run that the values are of; None for a text without rounds.

    Errors: `NotRecorded`.
    """
    rounds, place = [], 0
    while place < values.places:
        rounds.append(position(values, place))
        place += rounds[-1].ends[rounds[-1].chosen].taken
    if not rounds:
        return None
    seen = [(state.saved, loss) for one in rounds for state, loss in losses(one.states, one.chosen)]
    calls = np.array([call for one in rounds for call in one.chosen])
    saved, lost = np.array(seen).T
    return Verdict(compare(calls, saved, lost, None), sum(one.ends[one.chosen].milliseconds for one in rounds),
                   float(values.best[0]), int(calls.sum()), values.oracle.calls, tuple(rounds))
