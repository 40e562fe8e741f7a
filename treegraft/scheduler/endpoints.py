"""How fast a scheduler would write held-out texts, against fixed schedules and against the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from treegraft.analysis.whatif import Replay, change
from treegraft.scheduler.values import Choices, Values

ENDPOINTS = ("never", "always")


@dataclass(frozen=True)
class Speed:
    """Estimated speed of a schedule on some texts: `tokens` in `milliseconds`; `tau` counts the bonus; `calls` of the
    strong drafter a round."""

    name: str
    tokens: int
    milliseconds: float
    tau: float
    calls: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens * 1000 / self.milliseconds if self.milliseconds else 0.0


def speed(name: str, replays: Iterable[Replay]) -> Speed:
    """The speed over several replays, added up before it is divided."""
    replays = list(replays)
    rounds = [round for replay in replays for round in replay.rounds]
    return Speed(name, sum(replay.tokens - 1 for replay in replays), sum(replay.milliseconds for replay in replays),
                 1 + sum(round.accepted for round in rounds) / max(1, len(rounds)),
                 sum(sum(round.grown.calls) for round in rounds) / max(1, len(rounds)))


def best_mask(values: Sequence[Values]) -> Choices:
    """The fixed choice of calls that writes the texts in the least time."""
    masks = itertools.product((False, True), repeat=values[0].policy.layers)
    return min(masks, key=lambda mask: sum(one.fixed(mask).milliseconds for one in values))


def compare(values: Sequence[Values], mask: Choices) -> list[Speed]:
    """The speeds of never, always, the fixed `mask`, the scheduler that the values' replays have, and the oracle."""
    layers = [str(layer) for layer, call in enumerate(mask, start=1) if call]
    rows: dict[str, Callable[[Values], Replay]] = {
        **{name: replaying(name) for name in ENDPOINTS},
        f"best fixed layers ({', '.join(layers) or 'none'})": lambda one: one.fixed(mask),
        "scheduler": replaying("scheduler"),
        "oracle": lambda one: one.oracle,
    }
    return [speed(name, map(replay, values)) for name, replay in rows.items()]


def replaying(schedule: str) -> Callable[[Values], Replay]:
    """A replay under a schedule."""
    return lambda one: one.whatif.replay(change(one.policy, schedule=schedule))


def gain(speeds: Sequence[Speed], name: str) -> float:
    """How much faster a row is than the better of the endpoints: the figure that the paper reports."""
    found = {one.name: one.tokens_per_second for one in speeds}
    best = max(found[endpoint] for endpoint in ENDPOINTS)
    return found[name] / best - 1 if best else 0.0
