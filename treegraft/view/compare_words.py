"""What the Compare page says about two texts that part, and about policies on many prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from treegraft.analysis.align import Parting
from treegraft.analysis.text import visible
from treegraft.compare.table import Row
from treegraft.trace.runs import Run
from treegraft.view.labels import label, name

ENDS = {
    "length": "reached its limit of new tokens", "stop": "met a stop text", "eos": "ended by itself",
    "context": "reached the end of the context", "interrupted": "was interrupted", "error": "was ended by an error",
}

VERDICTS = {
    "ended": ("Other limits", "One text just stops here; up to here they are the same. Record both with the same limit "
              "and the same stop texts to compare more of them."),
    "sampled": ("Sampled", "At least one of the texts was drawn at random, so other texts are to be expected, with the "
                "same seed as well: another policy uses other random numbers. Record at temperature 0 to compare."),
    "other model": ("Another model", "The recordings name different targets or revisions. Speculative decoding keeps "
                    "the text of one target; compare recordings of the same one."),
    "near tie": ("Near tie", "The target's two best tokens are so close here that rounding can explain the difference: "
                 "a tree adds up the same numbers in another order than plain decoding. This is no bug. Record in "
                 "float32 to see it less often."),
    "other type": ("Other settings", "The targets ran in different number types, which shifts every probability a "
                   "little. Record both in the same type."),
    "unknown": ("Not known", "The recordings hold no probabilities of the target at this place, so they do not say how "
                "close the decision was. Record again to get them."),
    "unexplained": ("A bug, or another model", "The target clearly preferred one token here, so both texts should have "
                    "it. Check that both recordings used the same weights; if they did, please report this with both "
                    "recordings."),
}
"""Of each verdict: what it is called, and what it means and what to do."""


def ending(run: Run) -> str:
    """How a text ended, in words."""
    if run.end is None:
        return "is unfinished"
    return ENDS.get(run.end.reason, f"ended ({visible(run.end.reason)[:40]})")


def token(run: Run, number: int | None) -> str:
    return f"nothing: it {ending(run)}" if number is None else f"“{label(run.pieces.get(number))}” (token {number})"


def margin(value: float | None) -> str:
    return "not recorded" if value is None else f"{value:.5f} nats" if value < 0.01 else f"{value:.2f} nats"


def other_target(one: Run, other: Run) -> str:
    """That two runs with the same text name other targets; empty where they do not."""
    names = name(one.header.target.name), name(other.header.target.name)
    return "" if names[0] == names[1] else f" Their targets differ: {names[0]} and {names[1]}."


def parting_lines(found: Parting, runs: tuple[Run, Run], titles: tuple[str, str]) -> list[str]:
    """Position, tokens and margins, a line each; plain text."""
    lines = [f"{title}: {token(run, number)}; margin of the target's best token over its second: {margin(value)}"
             for title, run, number, value in zip(titles, runs, found.tokens, found.margins, strict=True)]
    return [*lines, f"Rounding can swap tokens that are closer than {found.limit:g} nats in these number types."]


# --- many prompts ---------------------------------------------------------------------------------------------------


def speed_reading(rows: Sequence[Row]) -> str:
    """Which of the policies is the fastest; all of them were measured against plain decoding."""
    best = max(rows, key=lambda row: row.over_plain.median)
    ratio = f"{best.over_plain.median:.2f} times plain decoding"
    if best.over_plain.median < 1:
        return f"None is as fast as plain decoding. {name(best.policy)} comes closest: {ratio}."
    return f"{name(best.policy)} is the fastest: {ratio}."


def time_reading(rows: Sequence[Row]) -> str:
    """Which phase takes most of a round under how many policies; all of them have times."""
    longest = Counter(max(row.phases, key=row.phases.get) for row in rows)
    if len(longest) == 1:
        return f"The phase that takes most of a round is {name(*longest)}, under every policy."
    told = ", ".join(f"{name(phase)} under {number}" for phase, number in longest.most_common())
    return f"The phase that takes most of a round, of {len(rows)} policies: {told}."


def map_reading(rows: Sequence[Row]) -> str:
    """Where the best median of a policy and a category stands."""
    found = [row for row in rows if row.over_plain]
    if not found:
        return "No category was measured against plain decoding."
    best = max(found, key=lambda row: row.over_plain.median)
    return (f"The median of each category. The highest is {best.over_plain.median:.2f} times plain decoding, with "
            f"{name(best.policy)} on {name(best.category) or '(no category)'}.")
