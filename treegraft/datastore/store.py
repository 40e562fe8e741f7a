"""A datastore: where an n-gram occurs in its texts, and what follows there (REST, arXiv 2311.08252)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NOTHING = -1
"""Stands for a token behind the end of a text."""


@dataclass(frozen=True)
class Match:
    """The n-gram of `size` tokens occurs at the places `first` to `end` (left out) of the suffix array."""

    size: int
    first: int
    end: int


@dataclass(frozen=True)
class Store:
    """Texts as `tokens` [tokens], each followed by an id beyond the vocabulary, and where their suffixes begin, in
    order: `suffixes` [tokens]. `identity` says in words which texts these are.

    What is wrong in the arrays, which may come from a stranger, makes finds wrong, but stays inside of them.
    """

    tokens: np.ndarray
    suffixes: np.ndarray
    identity: str = ""

    def find(self, ngram: Sequence[int]) -> Match | None:
        """Where an n-gram occurs; None if it does not."""
        wanted, size, places = list(ngram), len(ngram), range(len(self.suffixes))

        def head(place: int) -> list[int]:
            start = int(self.suffixes[place])
            return self.tokens[start:start + size].tolist()

        first = bisect_left(places, wanted, key=head)
        end = bisect_right(places, wanted, lo=first, key=head)
        return Match(size, first, end) if first < end else None

    def longest(self, tail: Sequence[int], shortest: int, longest: int) -> Match | None:
        """The longest n-gram of `shortest` to `longest` tokens that ends `tail` and occurs, None if there is none.

        If an n-gram occurs, the shorter ones that end it do, so halving the interval finds it.
        """
        best, low, high = None, shortest, min(longest, len(tail))
        while low <= high:
            size = (low + high + 1) // 2
            found = self.find(tail[len(tail) - size:])
            best = found or best
            low, high = (size + 1, high) if found else (low, size - 1)
        return best

    def continuations(self, match: Match, length: int, most: int, vocab: int) -> np.ndarray:
        """The tokens that follow a match: [places, length] in order, `NOTHING` from the end of a text on.

        Of more than `most` places every so many-th is taken. Ids from `vocab` on end a text.
        """
        count = match.end - match.first
        chosen = min(count, most)
        places = match.first + np.arange(chosen) * count // chosen
        index = self.suffixes[places].astype(np.int64)[:, None] + match.size + np.arange(length)
        rows = self.tokens[index.clip(0, len(self.tokens) - 1)].astype(np.int64)
        inside = (index >= 0) & (index < len(self.tokens)) & (rows < vocab)
        return np.where(np.logical_and.accumulate(inside, axis=1), rows, NOTHING)


@dataclass(frozen=True)
class Trie:
    """The nodes of a trie, parents first: `token`, `parent` (-1 below the root), `depth` (from 0) and `count`, how many
    of the runs go through the node. Columns of one length."""

    token: np.ndarray
    parent: np.ndarray
    depth: np.ndarray
    count: np.ndarray


def frequent(rows: np.ndarray, most: int) -> Trie:
    """The trie of the runs [runs, length], which are in order, cut to its `most` frequent nodes.

    Nodes are taken by (more frequent, shallower, earlier in order), so that parents come along.
    """
    runs, length = rows.shape
    fresh = np.ones((runs, length), bool)
    fresh[1:] = np.logical_or.accumulate(rows[1:] != rows[:-1], axis=1)
    # Runs that begin alike are neighbours: a node is a stretch of them, and begins where a run's beginning is fresh.
    starts = np.flatnonzero(fresh.T)
    count = np.diff(np.append(starts, runs * length))
    depth, run = np.divmod(starts, runs)
    token = rows[run, depth]
    known = np.flatnonzero(token >= 0)
    kept = known[np.lexsort((run[known], depth[known], -count[known]))[:most]]
    place = np.full(len(starts), -1)
    place[kept] = np.arange(len(kept))
    above = np.searchsorted(starts, starts[kept] - runs, side="right") - 1
    parent = np.where(depth[kept] == 0, -1, place[above])
    return Trie(token[kept], parent, depth[kept], count[kept])
