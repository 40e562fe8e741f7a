"""A run under every threshold of its scheduler, beside the schedules that bound it: never, always and the oracle."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from treegraft.analysis.decisions import decisions
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.sweep import Outcome, outcome
from treegraft.analysis.whatif import WhatIf
from treegraft.analysis.whatif_numbers import decode_speed
from treegraft.policies import TreeGraft
from treegraft.scheduler.endpoints import ENDPOINTS
from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.values import Values
from treegraft.settings import settings_of

MOST = 40
"""Thresholds that are replayed between the least and the largest margin."""

FIRST = 8
"""Of these, the ones that are spread evenly over the margins; the others go where outcomes differ."""

LIMITS = next((one.low, one.high) for one in settings_of(TreeGraft) if one.name == "threshold")


@dataclass(frozen=True)
class Sweep:
    """Outcomes at ascending thresholds in milliseconds, and `bounds` by name: never, always, and the oracle where the
    values are known. `recorded` is the run's own threshold, None where no scheduler decided, `measured` the tokens/s of
    its rounds, None where no times were recorded. `inexact` is that of the replays, empty where what they count is
    exact."""

    thresholds: Sequence[float]
    outcomes: Sequence[Outcome]
    bounds: dict[str, Outcome]
    recorded: float | None
    measured: float | None
    inexact: str

    @property
    def best(self) -> tuple[Outcome, float, float]:
        """The outcome with the most tokens/s (the largest tau where there is no speed), and between which thresholds
        it is had."""
        def rate(one: Outcome) -> tuple[float, float]:
            return one.tokens_per_second or 0.0, one.tau or 0.0

        top = max(self.outcomes, key=rate)
        first = self.outcomes.index(top)
        last = first
        while last + 1 < len(self.outcomes) and rate(self.outcomes[last + 1]) == rate(top):
            last += 1
        return top, self.thresholds[first], self.thresholds[last]


def sweep(whatif: WhatIf, values: Values | None = None) -> Sweep:
    """The run of `whatif` at thresholds below, between and above the margins: all of its decision states where there
    are `values`, else those that were recorded.

    Errors: `NotRecorded` for a run of another policy, one without a scheduler, and one that cannot be replayed.
    """
    policy = whatif.policy
    if not isinstance(policy, TreeGraft):
        raise NotRecorded(f"the policy {policy.name} has no threshold")
    if whatif.constants.scheduler is None:
        raise NotRecorded("the trace has no scheduler, whose threshold could be moved")
    recorded = policy.threshold if policy.needs_scheduler else None
    replay = functools.cache(lambda threshold: replayed(whatif, schedule="scheduler", threshold=threshold))
    thresholds = refined(candidates(margins(whatif, values), recorded), replay)
    if recorded is not None:
        thresholds = sorted({*thresholds, recorded})
    bounds = {name: replayed(whatif, schedule=name) for name in ENDPOINTS}
    if values:
        bounds["oracle"] = Outcome({}, [values.oracle])
    return Sweep(thresholds, [replay(one) for one in thresholds], bounds, recorded,
                 decode_speed(whatif.run), whatif.inexact)


def replayed(whatif: WhatIf, **settings: str | float) -> Outcome:
    """The run under other settings. Errors: `NotRecorded`."""
    found = outcome([whatif], settings)
    if found.problem:
        raise NotRecorded(found.problem)
    return found


def margins(whatif: WhatIf, values: Values | None) -> np.ndarray:
    """The margins that a threshold can lie between."""
    if values is None:
        return np.array([one.margin for one in decisions(whatif.run) if one.margin is not None])
    seen = np.array([features for _, _, features, _ in values.rows()]).reshape(-1, len(FEATURES))
    return whatif.constants.scheduler.margins(seen)


def candidates(found: np.ndarray, recorded: float | None) -> list[float]:
    """One threshold between any two margins, one below all and one above."""
    known = np.unique(found)
    if len(known) == 0:
        return [recorded or 0.0]
    pad = max(1.0, 0.05 * (known[-1] - known[0]))
    chosen = [known[0] - pad, *(known[1:] + known[:-1]) / 2, known[-1] + pad]
    return np.unique(np.clip(chosen, *LIMITS)).tolist()


def refined(thresholds: Sequence[float], replay: Callable[[float], Outcome]) -> list[float]:
    """Thresholds at most `MOST` of these, ascending: some evenly, then halving where neighbours' outcomes differ."""
    last = len(thresholds) - 1
    chosen = sorted({round(place) for place in np.linspace(0, last, min(FIRST, last + 1))})
    while len(chosen) < MOST:
        gaps = [(right - left, left, right) for left, right in itertools.pairwise(chosen) if right - left > 1
                and numbers(replay(thresholds[left])) != numbers(replay(thresholds[right]))]
        if not gaps:
            break
        _, left, right = max(gaps)
        chosen = sorted([*chosen, (left + right) // 2])
    return [thresholds[place] for place in chosen]


def numbers(one: Outcome) -> tuple[float | None, ...]:
    """What tells outcomes apart."""
    return one.tau, one.milliseconds, one.total("calls")
