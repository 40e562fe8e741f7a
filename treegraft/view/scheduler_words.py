"""Sentences and tables of the Scheduler page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from treegraft.analysis.attribution import Attribution
from treegraft.analysis.decisions import Decision
from treegraft.analysis.regret import Verdict
from treegraft.analysis.thresholds import Sweep
from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.network import Scheduler
from treegraft.trace.runs import MISSING, Run
from treegraft.view.feature_words import WORDS, readable
from treegraft.view.labels import name
from treegraft.view.scheduler_charts import ranked

MOST_TOLD = 3
"""Contributions that the sentence names."""

NEAR = 8
"""Tokens that are shown before and behind a position."""


def number(value: float, form: str = ".1f") -> str:
    """A number with a true minus, as charts have it."""
    return f"{value:{form}}".replace("-", "−")


def decided(one: Decision) -> str:
    """What was decided, and by what rule."""
    what = "called the strong drafter" if one.call else "skipped: the weak drafter went on"
    if one.spent:
        return (f"Layer {one.layer} skipped, because the round had no calls left. The margin was {number(one.margin)} "
                f"ms, the threshold {number(one.threshold, 'g')} ms.")
    if one.asked:
        compared = "above" if one.margin > one.threshold else "not above"
        return (f"Layer {one.layer} {what}. The scheduler's margin, {number(one.margin)} ms, is {compared} the "
                f"threshold of {number(one.threshold, 'g')} ms.")
    said = f"Layer {one.layer} {what}. That was fixed before the run (schedule: {name(one.rule)})"
    return said + ("." if one.margin is None else f"; the scheduler's margin would have been {number(one.margin)} ms.")


def attributed(found: Attribution) -> str:
    """Where a margin comes from, in a sentence."""
    told = ", ".join(f"{WORDS[feature].title} ({number(part, '+.1f')})" for feature, part in ranked(found)[:MOST_TOLD])
    return (f"At the average of its training data the scheduler's margin is {number(found.baseline)} ms; here it is "
            f"{number(found.margin)} ms. What moves it most: {told}.")


def feature_rows(seen: Mapping[str, float], scheduler: Scheduler | None = None,
                 found: Attribution | None = None) -> Iterator[dict[str, Any]]:
    """The features of a decision as rows of a table, the largest contribution first where the margin is `found`."""
    parts = found.parts if found else {}
    known = (feature for feature in FEATURES if feature in seen)
    for feature in sorted(known, key=lambda one: -abs(parts.get(one, 0))):
        row = {"Feature": WORDS[feature].title, "Value": readable(feature, seen[feature])}
        if found and scheduler:
            row |= {"Adds (ms)": round(parts[feature], 2), "In training": usual(feature, scheduler)}
        yield row | {"Meaning": WORDS[feature].meaning}


def usual(feature: str, scheduler: Scheduler) -> str:
    """What a feature was in the training data."""
    place = FEATURES.index(feature)
    mean, constant = float(scheduler.mean[place]), scheduler.provenance.get("constant_features")
    if isinstance(constant, list) and feature in constant:
        return f"always {readable(feature, mean)}: nothing was learned from it"
    return f"{readable(feature, mean)} on average"


def judged(found: Verdict) -> str:
    """The verdict in a sentence."""
    rounds = len(found.rounds)
    if found.lost < 0.05:
        return "No decision of this run loses time: they are the oracle's, or as good."
    return (f"By the measured costs these {rounds} rounds take {found.milliseconds:,.0f} ms. An oracle that knows the "
            f"text would need {found.best:,.0f} ms, with {found.oracle_calls} calls: {found.lost:,.0f} ms are lost "
            f"({found.share:.0%}). No scheduler can know as much; it is the bound.")


def swept(found: Sweep) -> str:
    """What a threshold sweep says."""
    best, low, high = found.best
    ends = [number(end, ".1f") for end in (low, high)]
    where = f"at thresholds from {ends[0]} to {ends[1]} ms" if high > low else f"at a threshold of {ends[0]} ms"
    where += ", where it never calls" if best.total("calls") == 0 else ""
    if best.tokens_per_second is None:
        return f"The most tokens a round, {best.tau:.2f}, come {where}."
    said = f"Fastest {where}: {best.tokens_per_second:.1f} tokens/s"
    if found.recorded is not None and low <= found.recorded <= high:
        said += f"; the recorded {number(found.recorded, 'g')} ms is as fast"
    elif found.recorded is not None:
        own = found.outcomes[found.thresholds.index(found.recorded)].tokens_per_second
        said += f", against {own:.1f} at the recorded {number(found.recorded, 'g')} ms"
    bounds = ", ".join(f"{title} {one.tokens_per_second:.1f}" for title, one in found.bounds.items())
    own = "" if found.recorded is None or found.measured is None else (
        f" Measured, the run itself came to {found.measured:.1f}: the estimates rest on single forwards that were timed "
        "before it.")
    return f"{said}. For comparison: {bounds}.{own}"


def sweep_rows(found: Sweep) -> Iterator[dict[str, Any]]:
    """The outcomes as rows of a table, the bounds first."""
    for title, one in (*found.bounds.items(), *zip(found.thresholds, found.outcomes, strict=True)):
        yield {"Threshold (ms)": title if isinstance(title, str) else f"{title:.2f}",
               "Tokens/s (estimated)": one.tokens_per_second and round(one.tokens_per_second, 2),
               f"Tau ({'estimated' if found.inexact else 'replayed exactly'})": one.tau and round(one.tau, 3),
               "Rounds": one.rounds,
               "Calls": one.total("calls")}


def around(run: Run, place: int) -> str:
    """The text before and behind output position `place`, on one line."""
    before, behind = run.output[max(0, place + 1 - NEAR): place + 1], run.output[place + 1: place + 1 + NEAR]
    return f"… {one_line(run, before)} ┃ {one_line(run, behind)} …"


def one_line(run: Run, tokens: Sequence[int]) -> str:
    """The text of some tokens, line breaks as signs."""
    text = b"".join(run.pieces.get(token, MISSING) for token in tokens).decode(errors="replace")
    return name(text.replace("\n", "↵").replace("\t", "⇥"))
