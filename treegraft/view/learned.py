"""Successor rows that a round changed, beside what they were before, as far as a view knows it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treegraft.trace.reader import Run
    from treegraft.trace.records import Learn

MOST_ROWS = 12
MOST_SUCCESSORS = 8
"""Rows of one event, and tokens of one row, that are shown; `successors` keeps 8 tokens a row."""


class Rows:
    """The rows of a run's drafters while its rounds are viewed in order, from number `first` on.

    At the start of a run they are those of the prompt, and nothing else for a drafter that had learned nothing before.
    Later on they are unknown until a round changes them."""

    def __init__(self, run: Run, first: int) -> None:
        self._known: dict[tuple[int, int], list[int]] = {}
        self._prompt: dict[int, list[int]] = {}
        self._blank: set[int] = set()
        if first == 0:
            self._blank = {drafter.id for drafter in run.header.drafters if not drafter.memory}
            prefill = run.prefill
            if prefill and prefill.k:
                self._prompt = dict(zip(run.header.prompt.tokens, _rows(prefill.tokens, prefill.k), strict=True))

    def view(self, event: Learn, first: Iterable[int]) -> dict[str, Any]:
        """The changed rows as [token, successors, successors before (None where unknown)], those of the tokens `first`
        ahead, and how many `more` there are. Takes note of all of them."""
        changed = dict(zip(event.tokens, _rows(event.successors, event.k), strict=True)) if event.k else {}
        ahead = [token for token in dict.fromkeys(first) if token in changed]
        order = [*ahead, *(token for token in changed if token not in set(ahead))]
        shown = [[token, _shown(changed[token]), self._before(event, token)] for token in islice(order, MOST_ROWS)]
        self._known.update({(event.drafter, token): row for token, row in changed.items()})
        return {"drafter": event.drafter, "rows": shown, "more": max(len(changed) - MOST_ROWS, 0)}

    def _before(self, event: Learn, token: int) -> list[int] | None:
        row = self._known.get((event.drafter, token), self._prompt.get(token))
        if row is None:
            return [] if event.drafter in self._blank else None
        return _shown(row[: event.k])


def _rows(flat: list[int], k: int) -> list[list[int]]:
    return [flat[start : start + k] for start in range(0, len(flat), k)]


def _shown(row: list[int]) -> list[int]:
    return [token for token in row if token >= 0][:MOST_SUCCESSORS]
