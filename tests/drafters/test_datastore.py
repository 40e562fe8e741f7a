"""The datastore drafter: the most frequent continuations of the longest match, with their shares as scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.datastore.test_store import END, store_of
from treegraft.drafters.base import Committed, Prefilled
from treegraft.drafters.datastore import Datastore
from treegraft.settings import SettingError
from treegraft.tree import DraftTree

EMPTY = np.zeros((0, 0), np.int64)
STORE = store_of([[1, 2, 3, 4], [1, 2, 3], [1, 2, 5], [7, 2, 6], [3, 4, 8]])


def started(prompt: list[int], root: int, **settings) -> Datastore:
    drafter = Datastore(store=STORE, vocab=END, title="texts", **settings)
    drafter.begin(Prefilled(prompt=prompt, root=root, tokens=EMPTY, logprobs=EMPTY), 100, 100)
    return drafter


def nats(share: float) -> int:
    return round(math.log(share) * 100_000)


def grow(drafter: Datastore, tree: DraftTree, *parents: int):
    return drafter.grow(tree, np.array(parents or (0,)), 1, 1)


def test_the_trie_of_the_longest_match():
    tree = DraftTree(2, 3, 65)
    growth = grow(started([0, 1], 2), tree)
    assert tree.token.tolist() == [2, 3, 5, 4]
    assert tree.parent.tolist() == [-1, 0, 0, 1]
    assert tree.score.tolist() == [0, nats(2 / 3), nats(1 / 3), nats(1 / 3)]
    assert (growth.span, growth.source, growth.final) == ([2] * 3, [None] * 3, True)
    assert growth.created.tolist() == [1, 2, 3]


def test_only_as_many_nodes_as_there_is_room_for():
    tree = DraftTree(2, 3, 3)
    grow(started([0, 1], 2), tree)
    assert tree.token.tolist() == [2, 3, 5]


def test_a_shorter_match_where_the_longer_one_does_not_occur():
    tree = DraftTree(2, 3, 65)
    growth = grow(started([8, 8], 2, shortest=1), tree)
    assert growth.span == [1] * 4
    assert tree.token.tolist() == [2, 3, 5, 6, 4]


def test_nothing_without_a_match():
    tree = DraftTree(2, 3, 65)
    growth = grow(started([8, 8], 2), tree)
    assert tree.size == 1
    assert growth.final
    assert growth.created.tolist() == []


def test_committed_tokens_belong_to_the_text():
    drafter = started([8, 8], 8)
    drafter.commit(DraftTree(8, 3, 1), Committed(np.zeros(0, np.int64), [7, 2]))
    tree = DraftTree(2, 5, 65)
    grow(drafter, tree)
    assert tree.token.tolist() == [2, 6]


def test_below_another_drafters_node_its_path_counts_as_text():
    tree = DraftTree(2, 3, 65)
    tree.add(np.array([0]), np.array([3]), np.array([-7]), 1)
    growth = grow(started([0, 1], 2), tree, 0, 1)
    assert growth.merged.tolist() == [1]
    assert tree.token.tolist() == [2, 3, 5, 4]
    assert tree.proposers.tolist() == [0, 0b11, 0b1, 0b1]
    assert tree.score[1] == -7


def test_the_match_of_each_node_is_that_of_its_parents_search():
    tree = DraftTree(1, 2, 65)
    tree.add(np.array([0, 0]), np.array([2, 8]), np.zeros(2, np.int64), 1)
    growth = grow(started([8], 1), tree, 1, 2)
    assert tree.token[3:].tolist() == [3, 5, 4]
    assert growth.span == [2, 2, 2]


def test_settings_are_checked():
    with pytest.raises(SettingError, match="shortest was 5, longer than the longest match of 4 tokens"):
        Datastore(longest=4, shortest=5)


def test_it_says_which_texts_it_has_read():
    assert (started([1], 2).memory, started([1], 2).label) == ("some texts", "texts")
