"""The draft tree against a dictionary of paths and a literal transcription of TreeGraft's final selection."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treegraft.tree import FIRST_ROWS, NEG_INF, DraftTree, path_scores

SCORES = st.sampled_from([0, -1, -2, -3, -100, NEG_INF])


class Plain:
    """A tree as lists, grown one node at a time."""

    def __init__(self, root: int) -> None:
        self.token, self.parent, self.origin, self.score, self.proposers = [root], [-1], [-1], [0], [0]

    def add(self, parent: int, token: int, score: int, drafter: int, capacity: int) -> int:
        for node in range(len(self.token)):
            if (self.parent[node], self.token[node]) == (parent, token):
                self.proposers[node] |= 1 << drafter
                return node
        if len(self.token) == capacity:
            return -1
        for column, value in zip((self.token, self.parent, self.origin, self.score, self.proposers),
                                 (token, parent, drafter, score, 1 << drafter), strict=True):
            column.append(value)
        return len(self.token) - 1

    def lineage(self, node: int) -> list[int]:
        return [*self.lineage(self.parent[node]), node] if node >= 0 else []


def published_selection(plain: Plain, budget: int) -> list[int]:
    """Final selection, word for word: a node brings its missing ancestors along, or is skipped if they do not fit."""
    order = sorted(range(1, len(plain.token)), key=lambda i: (-plain.score[i], len(plain.lineage(i)), i))
    keep = {0}
    for node in order:
        chain = [i for i in plain.lineage(node) if i not in keep]
        if len(keep) + len(chain) > budget + 1:
            continue
        keep.update(chain)
        if len(keep) == budget + 1:
            break
    return sorted(keep)


@st.composite
def grown(draw) -> tuple[DraftTree, Plain]:
    """A tree grown by several drafters with calls of `add` and `append`, and the same tree as lists."""
    capacity = draw(st.integers(1, 30))
    tree, plain = DraftTree(7, draw(st.integers(1, 50)), capacity), Plain(7)
    for _ in range(draw(st.integers(0, 5))):
        drafter = draw(st.integers(0, 3))
        if draw(st.booleans()):
            add(draw, tree, plain, drafter)
        else:
            append(draw, tree, plain, drafter)
    return tree, plain


def add(draw, tree: DraftTree, plain: Plain, drafter: int) -> None:
    pairs = draw(st.lists(st.tuples(st.integers(0, tree.size - 1), st.integers(0, 4)), max_size=12, unique=True))
    scores = draw(st.lists(SCORES, min_size=len(pairs), max_size=len(pairs)))
    parents, tokens = np.array(pairs, np.int64).reshape(-1, 2).T
    nodes = tree.add(parents, tokens, np.array(scores, np.int64), drafter)
    expected = [plain.add(*pair, score, drafter, tree.capacity) for pair, score in zip(pairs, scores, strict=True)]
    assert nodes.tolist() == expected


def append(draw, tree: DraftTree, plain: Plain, drafter: int) -> None:
    """Nodes below any node, those of the same call included."""
    parents, tokens, scores = [], [], []
    for _ in range(draw(st.integers(0, min(8, tree.room)))):
        parent, token = draw(st.integers(0, len(plain.token) - 1)), draw(st.integers(0, 4))
        if (parent, token) not in zip(plain.parent, plain.token, strict=True):
            parents.append(parent)
            tokens.append(token)
            scores.append(draw(SCORES))
            plain.add(parent, token, scores[-1], drafter, tree.capacity)
    assert tree.append(parents, tokens, scores, drafter).tolist() == list(range(tree.size - len(parents), tree.size))


@settings(max_examples=300, deadline=None)
@given(grown())
def test_columns_equal_the_plain_tree(pair):
    tree, plain = pair
    assert tree.size == len(plain.token) <= tree.capacity
    assert tree.room == tree.capacity - tree.size
    for column in ("token", "parent", "origin", "score", "proposers"):
        assert getattr(tree, column).tolist() == getattr(plain, column), column
    for node in range(tree.size):
        assert tree.path(node).tolist() == plain.lineage(node)
        assert tree.children(node).tolist() == [i for i in range(tree.size) if plain.parent[i] == node]


@settings(max_examples=300, deadline=None)
@given(grown())
def test_invariants(pair):
    tree, _ = pair
    parent, below = tree.parent, np.arange(1, tree.size)
    assert parent[0] == -1
    assert np.all(parent[1:] >= 0)
    assert np.all(parent[1:] < below)
    assert tree.depth[0] == 0
    assert np.all(tree.depth[1:] == tree.depth[parent[1:]] + 1)
    assert len(set(zip(parent.tolist(), tree.token.tolist(), strict=True))) == tree.size
    assert np.all(tree.positions == tree.context - 1 + tree.depth)
    assert np.all(tree.mask.sum(1) == tree.depth + 1)
    assert tree.mask.diagonal().all()
    assert np.all(tree.mask[below] == tree.mask[parent[1:]] | (np.arange(tree.size) == below[:, None]))
    assert np.all(tree.proposers[1:] >> tree.origin[1:] & 1)
    for node in below.tolist():
        assert tree.child(int(parent[node]), int(tree.token[node])) == node
    assert tree.child(0, 99) == -1


@settings(max_examples=500, deadline=None)
@given(grown(), st.integers(0, 30))
def test_best_is_the_published_selection(pair, budget):
    tree, plain = pair
    kept = tree.best(budget)
    assert kept.tolist() == published_selection(plain, budget)
    assert len(kept) <= budget + 1
    assert set(tree.parent[kept[1:]].tolist()) <= set(kept.tolist())


@settings(max_examples=300, deadline=None)
@given(grown(), st.integers(0, 30))
def test_both_ways_to_select_agree(pair, budget):
    """Where no node outranks its parent, `best` takes a short cut; the long way must give the same."""
    tree, _ = pair
    for node in range(1, tree.size):
        tree.score[node] = min(tree.score[node], tree.score[tree.parent[node]])
    order = 1 + np.lexsort((tree.depth[1:], -tree.score[1:]))
    assert tree.best(budget).tolist() == tree._best_closed(order, budget).tolist()


def test_selection_passes_over_a_chain_that_does_not_fit():
    tree = DraftTree(0, 1, 10)
    tree.append([0, 1, 2, 0], [1, 1, 1, 2], [-9, -9, 0, -1], 0)
    assert tree.best(2).tolist() == [0, 1, 4]
    assert tree.best(3).tolist() == [0, 1, 2, 3]


def test_pairs_beyond_the_capacity_are_left_out():
    tree = DraftTree(0, 1, 3)
    tree.add(np.array([0]), np.array([5]), np.array([-1]), 0)
    nodes = tree.add(np.array([0, 0, 0, 0]), np.array([6, 5, 7, 8]), np.array([-2, -3, -4, -5]), 1)
    assert nodes.tolist() == [2, 1, -1, -1]
    assert tree.room == 0
    assert tree.score.tolist() == [0, -1, -2]
    assert tree.proposers.tolist() == [0, 0b11, 0b10]


def test_memory_grows_with_the_tree():
    """A capacity of a million nodes costs nothing until they are there."""
    tree = DraftTree(3, 1, 1_000_000)
    zeros = np.zeros(FIRST_ROWS - 1, np.int64)
    nodes = tree.add(zeros, np.arange(FIRST_ROWS - 1), zeros, 0)
    more = tree.add(nodes, zeros, zeros - 1, 1)
    assert more[-1] == tree.size - 1 == 2 * (FIRST_ROWS - 1)
    assert tree.path(int(more[-1])).tolist() == [0, nodes[-1], more[-1]]
    assert np.all(tree.mask.sum(1) == tree.depth + 1)
    assert (tree.token[0], tree.score[-1], tree.proposers[-1]) == (3, -1, 0b10)


def test_a_closed_tree_keeps_its_nodes_and_no_more_memory():
    tree = DraftTree(3, 1, FIRST_ROWS)
    tree.add(np.array([0, 0]), np.array([5, 6]), np.array([-1, -2]), 0)
    before = [tree.token.tolist(), tree.parent.tolist(), tree.score.tolist(), tree.mask.tolist()]
    tree.close()
    assert [tree.token.tolist(), tree.parent.tolist(), tree.score.tolist(), tree.mask.tolist()] == before
    assert (tree._columns.shape, tree._mask) == ((6, 3), None)
    other = tree.copy()
    other.capacity = 4
    assert other.add(np.array([1]), np.array([7]), np.array([-9]), 1).tolist() == [3]
    assert other.mask.tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]]
    assert tree.add(np.array([0, 1]), np.array([6, 7]), np.array([-2, -9]), 1).tolist() == [2, -1]


@pytest.mark.parametrize(("parent", "logprob", "total"), [
    (0, -5, -5), (-7, -5, -12), (NEG_INF, -5, NEG_INF), (-7, NEG_INF, NEG_INF), (NEG_INF, NEG_INF, NEG_INF)])
def test_path_scores(parent, logprob, total):
    assert path_scores(np.array([parent]), np.array([logprob])).tolist() == [total]
