"""One trace under many settings: every combination replayed, with what it would have cost."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from treegraft.analysis.metrics import ratio
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import Replay, WhatIf, change
from treegraft.policies.base import Policy
from treegraft.scheduler.network import Scheduler
from treegraft.settings import Setting, SettingError, settings_of
from treegraft.trace.runs import Run

STEPS = 9
"""Values of a range whose number is not given."""

DIGITS = 4
"""Decimals of values that are tried in the middle between others."""

MOST = 1000
"""Combinations in one sweep."""

DEPTHS = ("layers", "depth", "length")
"""What policies call their number of layers."""


@dataclass(frozen=True)
class Outcome:
    """The runs of a trace under some `settings`: `replays`, or the `problem` why they cannot be replayed.

    Numbers over several runs are added up before they are divided. Times are estimates, all others exact relative to
    the recorded texts.
    """

    settings: Mapping[str, Any]
    replays: Sequence[Replay] = ()
    problem: str = ""

    def total(self, name: str) -> int:
        """The sum of a count of the replays, such as `calls`."""
        return sum(getattr(replay, name) for replay in self.replays)

    @property
    def rounds(self) -> int:
        return sum(len(replay.rounds) for replay in self.replays)

    @property
    def tau(self) -> float | None:
        """Mean acceptance length, the bonus counted."""
        accepted = sum(round.accepted for replay in self.replays for round in replay.rounds)
        return 1 + accepted / self.rounds if self.rounds else None

    @property
    def milliseconds(self) -> float | None:
        times = [replay.milliseconds for replay in self.replays]
        return None if None in times else sum(times)

    @property
    def tokens_per_second(self) -> float | None:
        """Estimated, the reading of the prompts left out."""
        written = sum(replay.tokens - 1 for replay in self.replays)
        return ratio(written * 1000, self.milliseconds) if self.milliseconds else None


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """The numbers of an outcome, by name."""
    counts = {name: outcome.total(name) for name in ("tokens", "nodes", "calls", "draft_forwards")}
    return {"settings": dict(outcome.settings), "problem": outcome.problem, "tau": outcome.tau,
            "rounds": outcome.rounds, **counts, "estimated_milliseconds": outcome.milliseconds,
            "estimated_tokens_per_second": outcome.tokens_per_second}


def sweep(runs: Iterable[Run], values: Mapping[str, Sequence[Any]], scheduler: Scheduler | None = None,
          on_step: Callable[[int, int], None] = lambda done, of: None) -> list[Outcome]:
    """The runs under every combination of the `values` of settings, where `scheduler` decides instead of the recorded
    one; first of all as they were recorded. What the policy refuses is an outcome with a `problem`.

    Errors: `SettingError` for too many combinations.
    """
    count = math.prod(map(len, values.values()))
    if count > MOST:
        raise SettingError(f"these are {count} combinations; allowed: {MOST}. Give fewer values.")
    whatifs = [WhatIf(run) for run in runs]
    combinations = [dict(zip(values, choice, strict=True)) for choice in itertools.product(*values.values())]
    outcomes = [outcome(whatifs, {})]
    for whatif in whatifs if scheduler else ():
        whatif.use(scheduler)
    for done, settings in enumerate(one for one in combinations if one):
        on_step(done, len(combinations))
        outcomes.append(outcome(whatifs, settings))
    return outcomes


def caveats(runs: Iterable[Run]) -> list[str]:
    """Why replays of some of the runs are estimates, each reason once."""
    found = []
    for run in runs:
        with suppress(NotRecorded):
            found.append(WhatIf(run).inexact)
    return [*filter(None, dict.fromkeys(found))]


def outcome(whatifs: Sequence[WhatIf], settings: Mapping[str, Any]) -> Outcome:
    """The runs under some settings, or why they cannot be replayed."""
    try:
        return Outcome(settings, [whatif.replay(change(whatif.policy, **settings)) for whatif in whatifs])
    except (NotRecorded, SettingError) as error:
        return Outcome(settings, problem=str(error))


def values_of(text: str, setting: Setting) -> list[Any]:
    """The values that a user typed: a list (`8,16,32`), or a range (`-1..1`, or `-1..1:5` for five values).

    Errors: `SettingError`.
    """
    span = re.fullmatch(r"(.+)\.\.([^:]+)(?::(\d{1,4}))?", text)
    if span is None:
        listed = [setting.parse(one) for one in text.split(",")]
        for value in listed:
            setting.check(value)
        return listed
    if setting.type not in (int, float):
        raise SettingError(f"{setting.name} was {text!r}; it takes no range. Allowed: a list of {setting.allowed}.")
    low, high = (setting.parse(end) for end in span.groups()[:2])
    setting.check(low)
    setting.check(high)
    steps = int(span[3] or STEPS)
    if steps < 2 or low >= high:
        raise SettingError(f"{setting.name} was {text!r}; write a range as LOW..HIGH or LOW..HIGH:STEPS, with 2 or "
                           "more steps, e.g. 8..64:8.")
    spaced = [low + (high - low) * step / (steps - 1) for step in range(steps)]
    return list(dict.fromkeys(round(one) for one in spaced)) if setting.type is int else spaced


def halve(low: Any, high: Any, kind: type, step: float, reaches: Callable[[Any], bool]) -> Any:
    """Try values between `low`, which does not reach something, and `high`, which does, each time in the middle, until
    the two are a `step` apart; the smallest value found that reaches it."""
    while high - low > step:
        middle = (low + high) // 2 if kind is int else round((low + high) / 2, DIGITS)
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def setting_of(policy: Policy, name: str) -> Setting:
    """A setting of the policy; `depth` stands for its number of layers, whatever its name. Errors: `SettingError`."""
    known = {setting.name: setting for setting in settings_of(type(policy))}
    names = [one for one in DEPTHS if one in known] if name == "depth" else [name]
    if not names or names[0] not in known:
        raise SettingError(f"the policy {policy.name} has no {name}; it has: {', '.join(known) or 'no settings'}.")
    return known[names[0]]
