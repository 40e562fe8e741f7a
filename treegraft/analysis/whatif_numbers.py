"""A replay beside the recording, number by number, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from treegraft.analysis.cost_profile import CostProfile, milliseconds, plain_milliseconds
from treegraft.analysis.metrics import Summary
from treegraft.analysis.whatif import Origin, Replay, WhatIf
from treegraft.policies.plain import Plain
from treegraft.trace.runs import Run


@dataclass(frozen=True)
class Number:
    """One quantity: in the recording, replayed under the recorded settings, and under the new ones. Counts of the two
    replays are what `WhatIf.counted` says, their speeds estimated under the same costs, so that they can be
    compared."""

    name: str
    measured: float | None
    before: float | None
    after: float | None
    origin: Origin
    digits: int = 2

    @property
    def difference(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before


def numbers(whatif: WhatIf, counts: Summary, before: Replay, after: Replay, profile: CostProfile) -> list[Number]:
    """The numbers of a replay beside those of the recorded settings and of the recording itself (`counts`). Plain
    decoding is not measured against itself."""
    rounds = max(1, counts.rounds)
    drafts = sum(model.forwards for model in counts.models if model.name != "target")
    rates = [tokens_per_second(whatif, replay, profile) for replay in (before, after)]
    plain = plain_milliseconds(whatif, profile)
    ratios = [rate * plain / 1000 / max(1, len(whatif.output) - 1) if rate and plain else None for rate in rates]

    def count(name: str, measured: float, of: str, digits: int = 0) -> Number:
        return Number(name, measured, getattr(before, of), getattr(after, of), whatif.counted, digits)

    against_plain = Number("against plain", counts.speedup, *ratios, "estimated")
    return [
        count("tau", counts.tau, "tau", 2),
        Number("tokens/s", decode_speed(whatif.run), *rates, "estimated"),
        *([] if whatif.policy.name == Plain.name else [against_plain]),
        Number("rounds", counts.rounds, len(before.rounds), len(after.rounds), whatif.counted, 0),
        count("verified nodes", counts.drafted, "nodes"),
        count("draft forwards", drafts, "draft_forwards"),
        Number("draft forwards a round", drafts / rounds, before.draft_forwards / max(1, len(before.rounds)),
               after.draft_forwards / max(1, len(after.rounds)), whatif.counted),
        Number("calls", calls_of(whatif), before.calls, after.calls, whatif.counted, 0),
    ]


def tokens_per_second(whatif: WhatIf, replay: Replay, profile: CostProfile) -> float | None:
    """Estimated speed of a replay, the reading of the prompt left out."""
    time = milliseconds(whatif, replay, profile)
    return (replay.tokens - 1) * 1000 / time if time else None


def decode_speed(run: Run) -> float | None:
    """Measured tokens/s of the rounds, the reading of the prompt left out."""
    time = sum(record.times.get("total", 0) for record in run.records)
    return (len(run.output) - 1) * 1e6 / time if time else None


def calls_of(whatif: WhatIf) -> int:
    """Layers that called in the recording."""
    return sum(getattr(event, "call", False) is True for record in whatif.run.records for event in record.events)
