"""Acceptance along the text: whether rounds accept less the further the text has come."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from treegraft.analysis.reached import Place, RoundRow

PARTS = 8
FEWEST = 8
"""Rounds from which a slope is fitted."""

CERTAIN = 0.99
"""A slope is told where the range that holds the true one with this chance lies on one side of 0: where there is none,
about one text in a hundred seems to have one."""


@dataclass(frozen=True)
class Part:
    """Rounds that start in one stretch of the output, from position `low` up to `high` (left out); `accepted` is the
    mean a round."""

    low: int
    high: int
    accepted: float
    places: list[Place]


@dataclass(frozen=True)
class Trend:
    """The straight line through (position, accepted) of all rounds: `slope` and its standard `error` in accepted tokens
    a round for each token of the text, `start` the value at position 0. None where there are too few rounds."""

    parts: list[Part]
    rounds: int
    slope: float | None = None
    error: float | None = None
    start: float | None = None

    @property
    def reach(self) -> float | None:
        """How far the range of slopes goes to both sides of `slope`."""
        return None if self.error is None else student(self.rounds - 2) * self.error

    @property
    def low(self) -> float | None:
        return None if self.reach is None else self.slope - self.reach

    @property
    def high(self) -> float | None:
        return None if self.reach is None else self.slope + self.reach

    @property
    def verdict(self) -> str:
        """falls, rises or level; unknown where no slope was fitted."""
        if self.reach is None:
            return "unknown"
        if self.low <= 0 <= self.high:
            return "level"
        return "falls" if self.slope < 0 else "rises"


def student(freedom: int) -> float:
    """Student's t that is exceeded to both sides with a chance of 1 - `CERTAIN`, by the first terms of its series in
    1 / freedom; from 6 degrees of freedom on the error is below 0.02."""
    z = NormalDist().inv_cdf((1 + CERTAIN) / 2)
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96,
             (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return sum(term / freedom**power for power, term in enumerate(terms))


def trend(rounds: Sequence[RoundRow], parts: int = PARTS) -> Trend:
    """Stretches of nearly equal numbers of rounds, and the slope. Rounds that the text's end cut are left out: what
    they accepted says nothing on drafts."""
    rounds = sorted((round for round in rounds if round.bonus), key=lambda round: round.position)
    starts = [round.position for round in rounds] + [rounds[-1].position + rounds[-1].accepted + 1 if rounds else 0]
    equal = (len(rounds) * place // parts for place in range(parts + 1))
    edges = sorted({bisect_left(starts, starts[edge]) for edge in equal})  # rounds of one position stay together
    found = [_part(rounds[low:high], starts[high]) for low, high in pairwise(edges)]
    x = np.array([round.position for round in rounds], float)
    y = np.array([round.accepted for round in rounds], float)
    if len(rounds) < FEWEST or np.ptp(x) == 0:
        return Trend(found, len(rounds))
    away = x - x.mean()
    slope = float(away @ y / (away @ away))
    start = float(y.mean() - slope * x.mean())
    left = y - start - slope * x
    error = float(np.sqrt(left @ left / (len(rounds) - 2) / (away @ away)))
    return Trend(found, len(rounds), slope, error, start)


def _part(rounds: Sequence[RoundRow], end: int) -> Part:
    return Part(rounds[0].position, end, sum(round.accepted for round in rounds) / len(rounds),
                [round.place for round in rounds])
