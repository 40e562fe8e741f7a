"""What follows from the measurements: pure functions.

Speeds are compared within one repeat and prompt, where the rows ran one after another, and only then summed up: a
machine that slows down half-way slows both sides of a ratio.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from treegraft.analysis.metrics import ratio
from treegraft.analysis.spread import Spread, spread
from treegraft.bench.samples import BARE, ENGINE, GENERATE, PLAIN, VERIFY, Difference, ForwardTime, Sample


@dataclass(frozen=True)
class RowSummary:
    """One row of the result.

    `tokens_per_second` is over the whole prompt set, a value a repeat; `over_generate` and `over_plain` are ratios of
    tokens/s to plain `generate` and to our own plain loop, a value a repeat and prompt; `set_over_generate` is the
    ratio over the whole set, a value a repeat. `phases`, `host` (time outside model forwards) are shares of the
    rounds, `prefill` is a share of the run. `recording` is the recorder's own time over that of the decode loop without
    it, `recorded_time` the time of a whole run with recording over one without. `same`, `near_ties` and `differing`
    count prompts.
    """

    name: str
    tokens_per_second: Spread
    over_generate: Spread
    set_over_generate: Spread
    over_plain: Spread | None
    tau: float | None
    phases: dict[str, float]
    prefill: float | None
    host: Spread | None
    recording: Spread | None
    recorded_time: Spread | None
    same: int
    near_ties: int
    differing: int


def complete(samples: Sequence[Sample], rows: int) -> list[Sample]:
    """The samples of those repeats and prompts that all `rows` have finished; an interrupt leaves one undone."""
    done = Counter((sample.repeat, sample.prompt) for sample in samples)
    return [sample for sample in samples if done[sample.repeat, sample.prompt] == rows]


def summarise(samples: Sequence[Sample], differences: Sequence[Difference]) -> list[RowSummary]:
    """A summary for each row, in order of first appearance. `samples` are complete and have a `GENERATE` row."""
    silent: dict[str, list[Sample]] = defaultdict(list)
    recorded: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        (recorded if sample.recorded else silent)[sample.row].append(sample)
    base, plain = silent[GENERATE], silent.get(PLAIN, [])
    return [summarise_row(mine, recorded[row], base, plain, [d for d in differences if d.row == row])
            for row, mine in silent.items()]


def summarise_row(mine: list[Sample], recorded: list[Sample], base: list[Sample], plain: list[Sample],
                  differences: list[Difference]) -> RowSummary:
    speeds, base_speeds = set_speeds(mine), set_speeds(base)
    phases: Counter[str] = sum((Counter(sample.phases) for sample in mine), Counter())
    verified = sum(sample.rounds for sample in mine)
    wrong = {found.prompt for found in differences if not found.near_tie}
    near = {found.prompt for found in differences} - wrong
    return RowSummary(
        name=mine[0].row, tokens_per_second=spread(speeds.values()), over_generate=spread(paired(mine, base, speed)),
        set_over_generate=spread(value / base_speeds[repeat] for repeat, value in speeds.items()),
        over_plain=spread(paired(mine, plain, speed)),
        tau=1 + sum(sample.accepted for sample in mine) / verified if verified else None,
        phases={phase: time / phases.total() for phase, time in phases.items()},
        prefill=ratio(sum(s.prefill for s in mine), sum(s.microseconds for s in mine)) if phases else None,
        host=spread(1 - s.forwards / s.in_rounds for s in mine if s.phases),
        recording=spread(s.recording / (s.prefill + s.in_rounds) for s in recorded),
        recorded_time=spread(paired(recorded, mine, lambda s: s.microseconds)),
        same=len({sample.prompt for sample in mine} - wrong - near), near_ties=len(near), differing=len(wrong))


def speed(sample: Sample) -> float:
    """Tokens a microsecond."""
    return sample.tokens / sample.microseconds


def paired(mine: Sequence[Sample], base: Sequence[Sample], value: Callable[[Sample], float]) -> list[float]:
    """Ratios of `value` between two rows, one for each repeat and prompt that both have."""
    other = {(sample.repeat, sample.prompt): value(sample) for sample in base}
    return [value(s) / other[s.repeat, s.prompt] for s in mine if (s.repeat, s.prompt) in other]


def set_speeds(samples: Sequence[Sample]) -> dict[int, float]:
    """Tokens a second over all prompts, by repeat; without the one that an interrupt cut, if there are others."""
    tokens, time, prompts = Counter(), Counter(), Counter(sample.repeat for sample in samples)
    for sample in samples:
        tokens[sample.repeat] += sample.tokens
        time[sample.repeat] += sample.microseconds
    whole = max(prompts.values(), default=0)
    return {repeat: tokens[repeat] * 1e6 / time[repeat] for repeat in tokens if prompts[repeat] == whole}


# --- single forwards ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ForwardRatio:
    """How much longer (or shorter) a forward over `tokens` tokens took than the one that it is compared with.

    `milliseconds` is its median time."""

    what: str
    tokens: int
    against: str
    milliseconds: float
    spread: Spread


def forward_ratios(times: Sequence[ForwardTime]) -> list[ForwardRatio]:
    """The engine against the bare model call over as many tokens; all others against verifying the root alone."""
    found: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for time in times:
        found[time.what, time.tokens][time.repeat] = time.microseconds
    made = []
    for (what, tokens), by_repeat in found.items():
        against = (BARE, tokens) if what == ENGINE else (VERIFY, 1)
        other = found.get(against, {})
        values = spread(time / other[repeat] for repeat, time in by_repeat.items() if repeat in other)
        if values is not None and what != BARE and (what, tokens) != against:
            made.append(ForwardRatio(what, tokens, f"{against[0]}({against[1]})",
                                     float(np.median(list(by_repeat.values()))) / 1000, values))
    return made
