"""Matches, continuations and tries against brute force."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treegraft.datastore.store import NOTHING, Match, Store, frequent

END = 9
TEXTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=5)


def store_of(texts: list[list[int]], end: int = END) -> Store:
    """A store with its suffixes sorted by Python."""
    tokens = [token for text in texts for token in (*text, end)]
    suffixes = sorted(range(len(tokens)), key=lambda start: tokens[start:])
    return Store(np.array(tokens, np.uint16), np.array(suffixes, np.int32), "some texts")


def places_of(texts: list[list[int]], ngram: list[int]) -> list[list[int]]:
    """What follows each occurrence of an n-gram up to the end of its text, in order."""
    return sorted(text[start + len(ngram):] for text in texts for start in range(len(text))
                  if text[start:start + len(ngram)] == ngram)


def padded(runs: list[list[int]], length: int) -> list[list[int]]:
    return [(run + [NOTHING] * length)[:length] for run in runs]


def test_worked_example():
    store = store_of([[1, 2, 3, 4], [1, 2, 3], [1, 2, 5], [7, 2, 5]])
    match = store.longest([8, 8, 1, 2], 2, 16)
    assert (match.size, match.end - match.first) == (2, 3)
    runs = store.continuations(match, 2, 5000, 9)
    assert sorted(runs.tolist()) == [[3, NOTHING], [3, 4], [5, NOTHING]]
    trie = frequent(runs, 64)
    assert trie.token.tolist() == [3, 5, 4]
    assert trie.parent.tolist() == [-1, -1, 0]
    assert trie.depth.tolist() == [0, 0, 1]
    assert trie.count.tolist() == [2, 1, 1]
    assert store.longest([4, 4], 2, 16) is None
    assert store.longest([8, 1], 1, 16).size == 1
    assert store.longest([1], 2, 16) is None


@given(TEXTS, st.lists(st.integers(0, 3), max_size=8), st.integers(1, 3), st.integers(0, 5))
def test_the_longest_match_by_brute_force(texts, tail, shortest, more):
    longest = shortest + more
    sizes = [size for size in range(shortest, min(longest, len(tail)) + 1)
             if places_of(texts, tail[len(tail) - size:])]
    match = store_of(texts).longest(tail, shortest, longest)
    assert (match.size if match else None) == max(sizes, default=None)


@given(TEXTS, st.lists(st.integers(0, 3), min_size=1, max_size=3), st.integers(1, 6))
def test_continuations_by_brute_force(texts, ngram, length):
    store, expected = store_of(texts), places_of(texts, ngram)
    match = store.find(ngram)
    if match is None:
        assert expected == []
    else:
        found = store.continuations(match, length, 5000, END).tolist()
        assert sorted(found) == sorted(padded(expected, length))


def test_of_many_places_every_so_many_th_is_taken():
    store = store_of([[1, token] for token in range(2, 8)])
    match = store.find([1])
    assert store.continuations(match, 1, 3, END).tolist() == [[2], [4], [6]]
    assert store.continuations(match, 1, 6, END)[:, 0].tolist() == [2, 3, 4, 5, 6, 7]


@given(st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=30), st.integers(1, 4),
       st.integers(1, 60))
def test_tries_by_brute_force(runs, length, most):
    rows = np.array(sorted(padded(runs, length)))
    counts = Counter(tuple(run[:end]) for run in runs for end in range(1, min(len(run), length) + 1))
    best = sorted(counts, key=lambda path: (-counts[path], len(path), path))[:most]
    trie = frequent(rows, most)
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(trie.token.tolist(), trie.parent.tolist(), strict=True):
        paths.append((*paths[parent], token) if parent >= 0 else (token,))
    assert paths == best
    assert trie.count.tolist() == [counts[path] for path in best]
    assert trie.depth.tolist() == [len(path) - 1 for path in best]


def test_ids_beyond_the_vocabulary_end_a_text():
    store = store_of([[1, 2, 3]])
    assert store.continuations(store.find([1]), 2, 9, 3).tolist() == [[2, NOTHING]]


@pytest.mark.parametrize("suffixes", [[-5, 99, 1, 0], [3, 2, 1, 0], [2**31 - 1] * 4])
def test_wrong_suffixes_stay_inside(suffixes):
    store = Store(np.array([1, 2, 1, END], np.uint16), np.array(suffixes, np.int32))
    store.longest([1, 2], 1, 16)
    rows = store.continuations(Match(1, 0, 4), 3, 9, END)
    assert ((rows >= NOTHING) & (rows < END)).all()
