"""The tables of numbers in other engines' words."""

from __future__ import annotations

from collections.abc import Iterable

from treegraft.analysis.aliases import Alias, Value
from treegraft.view.acceptance_charts.say import percent

SHARES = ("rate", "n-alpha")
"""Ends of names whose values are shares."""


def tables(found: Iterable[Alias]) -> dict[str, list[dict[str, str]]]:
    """Rows by system."""
    made: dict[str, list[dict[str, str]]] = {}
    for alias in found:
        made.setdefault(alias.system, []).append({
            "Its name": alias.name, "Value here": shown(alias.value, alias.name.endswith(SHARES)),
            "It computes": alias.computed, "Ours": alias.like, "What differs": alias.differs or "Nothing."})
    return made


def shown(value: Value, share: bool) -> str:
    """A value as text; a dash where its denominator is 0."""
    if isinstance(value, list):
        return ", ".join(shown(one, share) for one in value) or "-"
    if value is None or isinstance(value, int):
        return "-" if value is None else f"{value:,}"
    return percent(value, 1) if share else f"{value:.2f}"
