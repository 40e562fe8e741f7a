"""The logitspec drafter against the published rule, with its chains as plain lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treegraft.drafters.base import Committed, Prefilled
from treegraft.drafters.logitspec import LogitSpec, chain_length
from treegraft.tree import NEG_INF, DraftTree


def started(drafter, text: list[int], row: list[int]):
    """The drafter behind a prompt and its root; only the prompt's last row counts."""
    rows = np.array([[99] * len(row)] * (len(text) - 2) + [row], np.int64)
    drafter.begin(Prefilled(prompt=text[:-1], root=text[-1], tokens=rows, logprobs=rows), 1000, 1000)
    return drafter


def grown(drafter, text: list[int], capacity: int = 64):
    tree = DraftTree(text[-1], len(text), capacity)
    return tree, drafter.grow(tree, np.array([0]), 1, 1)


def paths(tree: DraftTree) -> list[list[int]]:
    """The tokens from the root (left out) to every node, in order of birth."""
    return [tree.token[tree.path(node)[1:]].tolist() for node in range(1, tree.size)]


def test_chain_lengths_by_rank():
    assert [chain_length(rank) for rank in (0, 1, 8, 9, 32, 33, 63)] == [4, 4, 4, 3, 3, 1, 1]


def test_worked_example():
    """After 1 2 the text went on with 3 4 5; after 7 with 8 9 1 2; nothing is known after 6, and 2 is the root."""
    text = [1, 2, 3, 4, 5, 7, 8, 9, 1, 2]
    tree, growth = grown(started(LogitSpec(), text, [2, 7, 6, 3]), text)
    assert paths(tree) == [
        [3], [3, 4], [3, 4, 5], [3, 4, 5, 7], [3, 4, 5, 7, 8], [3, 4, 5, 7, 8, 9], [3, 4, 5, 7, 8, 9, 1],
        [3, 4, 5, 7, 8, 9, 1, 2],
        [7], [7, 8], [7, 8, 9], [7, 8, 9, 1], [6]]
    assert growth.source == [2, 3, 4, 5, 6, 7, 8, 9, None, 6, 7, 8, None]
    assert growth.span == [2] * 8 + [0, 1, 1, 1, 0]
    assert tree.score[1:].tolist() == [NEG_INF] * 13
    assert growth.final


def test_the_last_whole_copy_is_preferred_to_an_earlier_one_and_that_to_shorter_ones():
    text = [1, 5, 6, 1, 7, 8, 1, 9, 1]
    assert paths(grown(started(LogitSpec(length=2, guesses=0), text, [1]), text)[0]) == [[9], [9, 1]]
    assert paths(grown(started(LogitSpec(length=3, guesses=0), text, [1]), text)[0])[-1] == [7, 8, 1]
    assert paths(grown(started(LogitSpec(length=20, guesses=0), text, [1]), text)[0])[-1] == text[1:]


def test_guesses_end_where_the_tree_is_full():
    text = [1, 2, 3]
    tree, _ = grown(started(LogitSpec(), text, [3, 4, 1, 6, 7]), text, capacity=4)
    assert paths(tree) == [[4], [1], [1, 2]]


def test_the_setting_bounds_the_guesses():
    text = [1, 2, 3]
    assert paths(grown(started(LogitSpec(guesses=2), text, [3, 4, 5, 6]), text)[0]) == [[4], [5]]
    assert paths(grown(started(LogitSpec(guesses=0), text, [3, 4, 5, 6]), text)[0]) == []


def test_the_guesses_are_those_of_the_last_round():
    drafter = started(LogitSpec(), [1, 2], [2, 3])
    tree, nobody = DraftTree(2, 2, 10), np.zeros(0, np.int64)
    drafter.commit(tree, Committed(nobody, [5, 6, 8], rivals=np.array([8, 15])))
    assert paths(grown(drafter, [1, 2, 5, 6, 8])[0]) == [[15]]
    drafter.commit(tree, Committed(nobody, [5], rivals=np.array([5, 11])))
    assert [path for path in paths(grown(drafter, [1, 2, 5, 6, 8, 5])[0]) if len(path) == 1] == [[6], [11]]


def published(text: list[int], row: list[int], longest: int, length: int, budget: int) -> set[tuple[int, ...]]:
    """Chains until they have `budget` different nodes; runs are searched by brute force."""
    def run(tail: list[int]) -> list[int]:
        for size in range(longest, 0, -1):
            places = [place for place in range(size, len(text)) if text[place - size:place] == tail[-size:]]
            whole = [place for place in places if place + length <= len(text)]
            if places and len(tail) >= size:
                place = whole[-1] if whole else places[0]
                return text[place:place + length]
        return []

    nodes: dict[tuple[int, ...], None] = {}
    chains = [run(text)] + [[guess, *run([*text, guess])][: 4 if rank <= 8 else 3 if rank <= 32 else 1]
                            for rank, guess in enumerate(row) if guess != text[-1]]
    for chain in chains:
        for end in range(1, len(chain) + 1):
            if len(nodes) < budget or tuple(chain[:end]) in nodes:
                nodes[tuple(chain[:end])] = None
    return set(nodes)


@given(st.lists(st.integers(0, 5), min_size=3, max_size=50), st.permutations(range(45)), st.integers(1, 4),
       st.integers(4, 9), st.integers(1, 40))
def test_chains_by_brute_force(text, row, longest, length, budget):
    drafter = started(LogitSpec(ngram=longest, length=length), text[:2], row)
    for place in range(2, len(text)):
        drafter.commit(DraftTree(text[place - 1], place, 1),
                       Committed(np.zeros(0, np.int64), [text[place]], rivals=np.array(row)))
    tree, _ = grown(drafter, text, capacity=1 + budget)
    assert {tuple(path) for path in paths(tree)} == published(text, row, longest, length, budget)
