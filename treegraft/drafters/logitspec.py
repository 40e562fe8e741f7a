"""LogitSpec: the target's runners-up for the root are guesses of the token after it (arXiv 2507.01449)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from treegraft.drafters.base import Committed, Drafter, Growth, Prefilled
from treegraft.drafters.lookup import Sketch
from treegraft.drafters.ngram import copied
from treegraft.drafters.ngrams import Followed
from treegraft.settings import setting
from treegraft.tree import NEG_INF, ROOT, DraftTree

LENGTHS = ((8, 4), (32, 3))
"""Up to this rank of a guess (0 is the target's favourite) its chain has this many tokens, the guess included; beyond
the last rank it has one."""

NOWHERE = -1
"""Place of a guess, which is not copied from the text."""


@dataclass
class LogitSpec(Drafter):
    """Chains below the root: what follows the root in the text, then each guess and what follows it.

    The guesses are the target's next best tokens where it chose the root, best first. A run is copied from the last
    place of the longest n-gram where all of `length` tokens follow, else from its first place. Chains that begin alike
    share their nodes, until the tree is full; that ends the round's drafting.
    """

    name = "logitspec"

    guesses: int = setting(63, "The target's runners-up that are guessed at most.", low=0, high=127)
    ngram: int = setting(3, "Longest match, in tokens.", low=1, high=10)
    length: int = setting(20, "Most tokens copied after the root.", low=1, high=64)

    _text: list[int] = field(init=False, repr=False)
    _row: list[int] = field(init=False, repr=False)
    _anywhere: Followed = field(init=False, repr=False)
    _whole: Followed = field(init=False, repr=False)

    @property
    def prefill_k(self) -> int:
        return self.guesses + 1

    @property
    def rivals_k(self) -> int:
        return self.guesses + 1

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._text = []
        self._anywhere, self._whole = Followed(self.ngram), Followed(self.ngram, self.length, latest=True)
        self._take([*prefilled.prompt, prefilled.root], prefilled.tokens[-1])

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        self._take(committed.tokens, committed.rivals)

    def _take(self, tokens: Sequence[int], row: np.ndarray) -> None:
        """The text goes on with `tokens`, the last of them chosen from `row`, the target's best."""
        for token in tokens:
            self._text.append(token)
            self._anywhere.append(self._text)
            self._whole.append(self._text)
        self._row = row[: self.guesses + 1].tolist()

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        sketch, root = Sketch(tree), self._text[-1]
        self._copy(sketch, ROOT, [], self.length)
        for rank, guess in enumerate(self._row):
            if sketch.full:
                break
            if guess != root:
                sketch.insert(ROOT, [guess], NEG_INF, NOWHERE, 0)
                self._copy(sketch, sketch.children(ROOT)[guess], [guess], chain_length(rank) - 1)
        return copied(sketch, self.id)

    def _copy(self, sketch: Sketch, parent: int, path: list[int], length: int) -> None:
        """Copy at most `length` tokens below a node, which `path` leads to from the root."""
        tail = [*self._text[-self.ngram:], *path]
        found = self._anywhere.find(tail)
        if found and length:
            size, first = found
            place = self._whole.place(tail[-size:])
            place = first if place is None else place
            sketch.insert(parent, self._text[place:place + length], NEG_INF, place, size)


def chain_length(rank: int) -> int:
    """Most tokens of the chain that begins with the guess of this rank."""
    return next((length for last, length in LENGTHS if rank <= last), 1)
