"""Where gates stand best, and how high: chosen on dense traces of the ungated policy, as ECHO and Graft do it.

A depth is worth a gate if the confidence there tells positions where the text is accepted beyond it from the others.
The thresholds are those under which the replays of the traces are fastest, by the measured costs of forwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from treegraft.analysis.whatif import WhatIf
from treegraft.policies.graft import DEPTHS, STAGES, Graft, confidence
from treegraft.trace.runs import Run

LEAST_AUC = 0.8
CANDIDATES = 5
"""Thresholds that are tried for a gate, beside none."""

Thresholds = tuple[float, ...]


@dataclass(frozen=True)
class Readings:
    """What every output position of some runs shows: `confidence` [positions, depths], where depth 0 is that behind the
    first layer (not a number where nothing was drafted there), and `accepted`, the accepted length of the ungated tree
    [positions]."""

    confidence: np.ndarray
    accepted: np.ndarray

    def at(self, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """Confidence at a depth, and whether more is accepted than `depth` tokens, where something was drafted."""
        drafted = ~np.isnan(self.confidence[:, depth])
        return self.confidence[drafted, depth], self.accepted[drafted] > depth

    @classmethod
    def concatenate(cls, parts: Sequence[Readings]) -> Readings:
        confidences, lengths = zip(*((part.confidence, part.accepted) for part in parts), strict=True)
        return cls(np.concatenate(confidences), np.concatenate(lengths))


def read(run: Run, policy: Graft) -> Readings:
    """The readings of a dense trace. Errors: `NotRecorded`."""
    whatif, ungated = WhatIf(run), policy.ungated
    places = range(len(run.output) - 1)
    found = np.full((len(places), policy.depth), np.nan)
    for place in places:
        tree = whatif.grow(place, ungated).tree
        for depth in range(policy.depth):
            level = np.flatnonzero(tree.depth == depth + 1)
            if len(level):
                found[place, depth] = confidence(tree, level)
    return Readings(found, np.array([len(whatif.verify(place, ungated).path) for place in places], np.int64))


def auc(values: np.ndarray, labels: np.ndarray) -> float | None:
    """The chance that a value with a true label is above one with a false label, ties counting half; None without both
    kinds."""
    true, false = values[labels], np.sort(values[~labels])
    if not (len(true) and len(false)):
        return None
    below = np.searchsorted(false, true, "left") + np.searchsorted(false, true, "right")
    return float(below.mean() / (2 * len(false)))


def youden(values: np.ndarray, labels: np.ndarray) -> float:
    """The threshold t with the largest sum of the shares of true labels above t and of false ones not above it."""
    tried = np.unique(values)
    above = 1 - np.searchsorted(np.sort(values[labels]), tried, "right") / max(1, labels.sum())
    below = np.searchsorted(np.sort(values[~labels]), tried, "right") / max(1, (~labels).sum())
    return float(tried[np.argmax(above + below)])


def choose_depths(readings: Readings, least_auc: float = LEAST_AUC) -> dict[str, int]:
    """The depth of each gate that is worth it: of the depths that a stage's template suits, the one with the highest
    area under the curve, if that is `least_auc` or more.

    A template suits the depths from that of its gate in the paper up to the next gate's. A gate behind the last layer
    would have nothing to stop.
    """
    last = readings.confidence.shape[1] - 1
    chosen = {}
    for stage, first, end in zip(STAGES, DEPTHS, (*DEPTHS[1:], last), strict=True):
        areas = {depth: auc(*readings.at(depth)) for depth in range(first, min(end, last))}
        good = {depth: area for depth, area in areas.items() if area is not None and area >= least_auc}
        if good:
            chosen[stage] = max(good, key=lambda depth: (good[depth], -depth))
    return chosen


def gates_text(chosen: Mapping[str, int]) -> str:
    """The setting `gates` for these depths; gates that are not chosen stand where the paper has them."""
    return ",".join(str(chosen.get(stage, depth)) for stage, depth in zip(STAGES, DEPTHS, strict=True))


def candidates(readings: Readings, chosen: Mapping[str, int]) -> list[Thresholds]:
    """All combinations of thresholds to try: for each chosen gate none, Youden's, and others spread over what was read
    there."""
    tried = []
    for stage in STAGES:
        values, labels = readings.at(chosen[stage]) if stage in chosen else (np.zeros(0), np.zeros(0, bool))
        spread = np.quantile(values, np.arange(1, CANDIDATES) / CANDIDATES).tolist() if len(values) else []
        own = [youden(values, labels)] if len(values) else []
        tried.append(sorted({0.0, *(round(one, 4) for one in (*spread, *own))}))
    return list(itertools.product(*tried))


def with_thresholds(policy: Graft, gates: str, thresholds: Thresholds) -> Graft:
    return replace(policy, gates=gates, **{f"tau_{stage}": tau for stage, tau in zip(STAGES, thresholds, strict=True)})


def speeds(runs: Iterable[Run], policies: Sequence[Graft], on_run: Callable[[], None] = lambda: None) -> list[float]:
    """Estimated tokens per second of each policy over all runs, 0 where nothing was timed. Errors: `NotRecorded`."""
    tokens, milliseconds = 0, np.zeros(len(policies))
    for run in runs:
        whatif = WhatIf(run)
        times = [whatif.replay(policy).milliseconds for policy in policies]
        if None in times:
            return [0.0] * len(policies)
        tokens += len(run.output) - 1
        milliseconds += times
        on_run()
    return [tokens * 1000 / spent if spent else 0.0 for spent in milliseconds.tolist()]
