"""The ngram drafter against the published rule, searched by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treegraft.drafters.base import Committed, Prefilled
from treegraft.drafters.ngram import Ngram
from treegraft.settings import SettingError
from treegraft.tree import NEG_INF, DraftTree

EMPTY = np.zeros((0, 0), np.int64)
NOBODY = np.zeros(0, np.int64)


def started(drafter, prompt: list[int], root: int):
    drafter.begin(Prefilled(prompt=prompt, root=root, tokens=EMPTY, logprobs=EMPTY), 1000, 1000)
    return drafter


def grown(drafter, text: list[int], capacity: int = 65):
    tree = DraftTree(text[-1], len(text), capacity)
    return tree, drafter.grow(tree, np.array([0]), 1, 1)


def first_copy(text: list[int], longest: int, length: int, whole: bool) -> tuple[int, int] | None:
    """Size of the match and place of the copy: longer matches first, then earlier places."""
    for size in range(longest, 0, -1):
        for place in range(size, len(text) - (length if whole else 1) + 1):
            if text[place - size:place] == text[-size:]:
                return size, place
    return None


def test_the_longest_match_wins_and_then_the_first():
    text = [1, 2, 3, 9, 8, 7, 2, 3, 6, 1, 2, 3, 5, 5, 1, 2, 3]
    tree, growth = grown(started(Ngram(length=4), text[:-1], text[-1]), text)
    assert tree.token.tolist() == [3, 9, 8, 7, 2]
    assert tree.parent.tolist() == [-1, 0, 1, 2, 3]
    assert tree.score.tolist() == [0] + [NEG_INF] * 4
    assert (growth.source, growth.span, growth.final) == ([3, 4, 5, 6], [3] * 4, True)


def test_a_copy_must_be_whole_unless_shorter_ones_are_allowed():
    text = [1, 2, 3, 4, 9, 1, 2]
    assert grown(started(Ngram(length=6), text[:-1], 2), text)[0].size == 1
    assert grown(started(Ngram(length=5), text[:-1], 2), text)[0].token.tolist() == [2, 3, 4, 9, 1, 2]
    assert grown(started(Ngram(length=6, whole=False), text[:-1], 2), text)[0].token.tolist() == [2, 3, 4, 9, 1, 2]


def test_the_end_of_the_text_does_not_match_itself():
    tree, growth = grown(started(Ngram(whole=False), [1, 2, 3], 4), [1, 2, 3, 4])
    assert tree.size == 1
    assert growth.final
    assert growth.note == ""


def test_a_small_tree_takes_the_beginning_of_the_copy():
    text = [1, 2, 3, 4, 5, 1]
    assert grown(started(Ngram(length=4), text[:-1], 1), text, capacity=3)[0].token.tolist() == [1, 2, 3]


def test_below_another_drafters_node_its_path_counts_as_text():
    text = [1, 2, 3, 4, 5, 6, 1]
    drafter = started(Ngram(length=2), text[:-1], 1)
    tree = DraftTree(1, len(text), 10)
    tree.add(np.array([0]), np.array([4]), np.array([-7]), 1)
    growth = drafter.grow(tree, np.array([1, 0]), 1, 1)
    assert tree.token.tolist() == [1, 4, 5, 6, 2, 3]
    assert tree.parent.tolist() == [-1, 0, 1, 2, 0, 4]
    assert growth.source == [4, 5, 1, 2]


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60), st.integers(1, 58), st.integers(1, 4), st.integers(1, 8),
       st.booleans())
def test_first_occurrences_by_brute_force(text, prompt, longest, length, whole):
    prompt = min(prompt, len(text) - 1)
    drafter = started(Ngram(ngram=longest, length=length, whole=whole), text[:prompt], text[prompt])
    for end in range(prompt + 1, len(text) + 1):
        tree, growth = grown(drafter, text[:end])
        found = first_copy(text[:end], longest, length, whole)
        size, place = found or (0, end)
        expected = text[place:min(place + length, end)]
        assert tree.token[1:].tolist() == expected
        assert growth.source == list(range(place, place + len(expected)))
        assert growth.span == [size] * len(expected)
        if end < len(text):
            drafter.commit(tree, Committed(NOBODY, text[end:end + 1]))


def test_begin_forgets_the_last_text():
    drafter = started(Ngram(length=1), [1, 2, 1, 2], 1)
    assert grown(started(drafter, [5, 6], 1), [5, 6, 1])[0].size == 1


def test_settings_are_checked():
    with pytest.raises(SettingError, match="length was 0; allowed: 1 to 64"):
        Ngram(length=0)
