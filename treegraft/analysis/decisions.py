"""The decisions of a run: where a strong drafter was called, and what was known when that was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treegraft.scheduler.features import FEATURES
from treegraft.trace.records import Decide
from treegraft.trace.runs import Run

if TYPE_CHECKING:
    import pandas

DEEPEST = 16
"""Layers that a policy may have."""


@dataclass(frozen=True)
class Decision:
    """One decision: in `round`, as its event number `event`, for a `layer` (from 1).

    `margin` and `threshold` are milliseconds, None where no scheduler was asked; `calls_left` are the calls that the
    round could still make; `features` are what was looked at, by name.
    """

    round: int
    event: int
    layer: int
    rule: str
    call: bool
    margin: float | None
    threshold: float | None
    calls_left: int
    features: Mapping[str, float] = field(repr=False)

    @property
    def spent(self) -> bool:
        """Whether it skipped because the round had no calls left."""
        return self.asked and not self.call and self.calls_left == 0

    @property
    def asked(self) -> bool:
        """Whether a scheduler's margin decided."""
        return self.margin is not None and self.threshold is not None and self.rule != "forced"


def decisions(run: Run) -> list[Decision]:
    """All decisions of a run, in order; a layer that was decided twice counts as it was decided last. Layers that no
    policy has are left out."""
    found: dict[tuple[int, int], Decision] = {}
    for number, record in enumerate(run.records):
        for place, event in enumerate(record.events):
            if isinstance(event, Decide) and 1 <= event.layer <= DEEPEST:
                found[number, event.layer] = Decision(number, place, event.layer, event.rule, event.call, event.margin,
                                                      event.threshold, event.calls_left, event.features)
    return list(found.values())


def frame(found: Sequence[Decision]) -> pandas.DataFrame:
    """One row a decision, the features as columns `feature NAME`."""
    import pandas

    return pandas.DataFrame([{
        "round": one.round, "layer": one.layer, "rule": one.rule, "call": one.call, "margin": one.margin,
        "threshold": one.threshold, "calls_left": one.calls_left,
        **{f"feature {name}": one.features[name] for name in FEATURES if name in one.features}} for one in found])


def layers_of(run: Run, found: Sequence[Decision]) -> int:
    """How many layers a round of the run may have: what the policy says, or the deepest layer that was decided on."""
    stated = run.header.policy.settings.get("layers")
    deepest = max((one.layer for one in found), default=0)
    return max(deepest, min(stated, DEEPEST)) if isinstance(stated, int) else deepest
