"""What replayed rounds would take on a machine with other costs: measured curves, stretched by a factor a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from treegraft.analysis.costs import microseconds
from treegraft.analysis.whatif import Replay, WhatIf
from treegraft.trace.records import TARGET


@dataclass(frozen=True)
class CostProfile:
    """How many times as long as measured a forward of the target and of the drafters takes. The host's own time stays
    as it was."""

    target: float = 1.0
    drafters: float = 1.0

    def factor(self, model: int) -> float:
        return self.target if model == TARGET else self.drafters


def milliseconds(whatif: WhatIf, replay: Replay, profile: CostProfile) -> float | None:
    """Estimated time of all rounds of a replay, None where a curve is missing."""
    forwards = [forward for round in replay.rounds for forward in round.forwards]
    return time_of(whatif, forwards, len(replay.rounds), profile)


def plain_milliseconds(whatif: WhatIf, profile: CostProfile) -> float | None:
    """Estimated time of plain decoding of the same text: a forward of the target over one token for each."""
    tokens = len(whatif.output) - 1
    return time_of(whatif, [(TARGET, 1)] * tokens, tokens, profile)


def time_of(whatif: WhatIf, forwards: Iterable[tuple[int, int]], rounds: int, profile: CostProfile) -> float | None:
    """Estimated milliseconds of forwards, each (model, tokens), in so many rounds."""
    known: dict[tuple[int, int], float] = {}
    total = whatif.host * rounds
    for model, tokens in forwards:
        if model not in whatif.curves:
            return None
        if (model, tokens) not in known:
            known[model, tokens] = microseconds(whatif.curves[model], tokens) * profile.factor(model)
        total += known[model, tokens]
    return total / 1000
