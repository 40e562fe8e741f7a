"""Where the n-grams of a growing text are followed, kept up to date token by token."""

from __future__ import annotations

from collections.abc import Sequence


class Followed:
    """Places of a growing text that n-grams of 1 to `longest` tokens end before, with `ahead` or more tokens there.

    Of several places of an n-gram it keeps the first, or with `latest` the last.
    """

    def __init__(self, longest: int, ahead: int = 1, latest: bool = False) -> None:
        self._longest, self._ahead, self._latest = longest, ahead, latest
        self._place: dict[tuple[int, ...], int] = {}

    def append(self, text: Sequence[int]) -> None:
        """Take note of the last token of `text`, which was appended to it."""
        place = len(text) - self._ahead
        for size in range(1, min(self._longest, place) + 1):
            ngram = tuple(text[place - size:place])
            if self._latest or ngram not in self._place:
                self._place[ngram] = place

    def place(self, ngram: Sequence[int]) -> int | None:
        """The place of an n-gram; None if none is known."""
        return self._place.get(tuple(ngram))

    def find(self, tail: Sequence[int]) -> tuple[int, int] | None:
        """Size and place of the longest n-gram that `tail` ends with; None if none is known."""
        for size in range(min(self._longest, len(tail)), 0, -1):
            place = self.place(tail[-size:])
            if place is not None:
                return size, place
        return None
