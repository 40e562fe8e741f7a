"""Numbers in the sentences, tables and hover texts of the Acceptance page."""

from __future__ import annotations


def percent(part: float | None, digits: int = 0) -> str:
    """A share as text; a dash where its denominator is 0."""
    return "-" if part is None else f"{part:.{digits}%}"


def of(part: int, whole: int, what: str) -> str:
    """A share with its counts: "3 of 4 rounds (75%)"."""
    return f"{part:,} of {whole:,} {what}" + (f" ({part / whole:.0%})" if whole else "")


def count(number: int, what: str) -> str:
    """A number of things: "1 round", "2 rounds"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def rounded(share: float | None) -> float | None:
    """A share for a table, in percent."""
    return None if share is None else round(100 * share, 1)
