"""Prompt lookup: one run copied from where the end of the text occurred first (github.com/apoorvumang/
prompt-lookup-decoding)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from treegraft.drafters.base import Committed, Drafter, Growth, Prefilled
from treegraft.drafters.lookup import Sketch
from treegraft.drafters.ngrams import Followed
from treegraft.settings import setting
from treegraft.tree import NEG_INF, DraftTree


@dataclass
class Ngram(Drafter):
    """Copies what followed the first earlier place of the longest n-gram that the text ends with.

    It copies below every parent as if its path were part of the text, gives no scores, and ends the round's drafting.
    """

    name = "ngram"

    ngram: int = setting(3, "Longest match, in tokens.", low=1, high=10)
    length: int = setting(10, "Tokens copied, no more than the policy's budget.", low=1, high=64)
    whole: bool = setting(True, "Copy only where all of `length` tokens follow the match, as the reference code does.")

    _text: list[int] = field(init=False, repr=False)
    _index: Followed = field(init=False, repr=False)

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._text, self._index = [], Followed(self.ngram, self.length if self.whole else 1)
        self._take([*prefilled.prompt, prefilled.root])

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        self._take(committed.tokens)

    def _take(self, tokens) -> None:
        for token in tokens:
            self._text.append(token)
            self._index.append(self._text)

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        sketch = Sketch(tree)
        for parent in parents.tolist():
            found = self._index.find([*self._text[-self.ngram:], *sketch.path(parent)])
            if found:
                size, place = found
                sketch.insert(parent, self._text[place:place + self.length], NEG_INF, place, size)
        return copied(sketch, self.id)


def copied(sketch: Sketch, drafter: int) -> Growth:
    """Write a sketch of copies into its tree; they are all that the drafter has for this round."""
    created = sketch.write(drafter)
    return Growth(
        created=created, candidates=created, merged=np.array(sorted(sketch.merged), np.int64),
        match=np.array([size for _, _, size in sketch.origins], np.int64), span=[size for _, _, size in sketch.origins],
        source=[place + step if place >= 0 else None for place, step, _ in sketch.origins], final=True)
