"""Lookahead's window and pool, against rounds of the published code that are written out with whole sequences."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from treegraft.drafters.base import Committed, Prefilled
from treegraft.drafters.lookahead import Lookahead, Pool, Window
from treegraft.policies.base import Round
from treegraft.policies.lookahead import Lookahead as Policy
from treegraft.tree import NEG_INF, DraftTree
from treegraft.verify import accept_greedy

EMPTY = np.zeros((0, 0), np.int64)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def favourite(text: list[int]) -> int:
    """A target that looks at three tokens and repeats itself a lot."""
    return zlib.crc32(bytes(text[-3:])) % 4


def drafted(drafter: Lookahead, text: list[int], budget: int = 200, limit: int = 1000) -> Round:
    policy = Policy(budget=budget)
    round = Round(DraftTree(text[-1], len(text), policy.capacity), [drafter], limit)
    policy.draft(round)
    return round


def decode(drafter: Lookahead, rounds: int, **options):
    """Rounds as the engine runs them: (text before, round, accepted tokens with the bonus)."""
    text = [*PROMPT, favourite(PROMPT)]
    drafter.begin(Prefilled(prompt=PROMPT, root=text[-1], tokens=EMPTY, logprobs=EMPTY), 1000, 1000)
    for _ in range(rounds):
        round = drafted(drafter, text, **options)
        tree, kept = round.tree, round.kept
        answers = np.array([favourite(text + tree.token[tree.path(node)[1:]].tolist()) for node in kept.tolist()])
        path, bonus = accept_greedy(tree, kept, answers)
        tokens = [*tree.token[path].tolist(), bonus]
        drafter.commit(tree, Committed(path, tokens, verified=kept, best=answers[:, None]))
        yield list(text), round, tokens
        text += tokens


class Published:
    """The state of the authors' greedy loop, updated as they do it."""

    def __init__(self, chain: list[int], ngram: int, guesses: int) -> None:
        self.past: list[list[int] | None] = [chain] + [None] * (ngram - 2)
        self.filled, self.ngram, self.guesses, self.map = 0, ngram, guesses, {}

    def step(self, text: list[int]) -> None:
        past, last = self.past, self.ngram - 2
        chain = [text[-1], *past[0]]
        if self.filled == 0:
            results = [favourite(text + past[0][: i + 1]) for i in range(len(past[0]))]
            past[0], past[1] = past[0][1:], results
            self.filled = 1
            return
        levels = past[1: self.filled + 1]
        results = [favourite(text + chain[1: i + 1] + [level[i] for level in levels]) for i in range(len(levels[0]))]
        if self.filled < last:
            for level in range(self.filled + 1):
                past[level] = past[level][1:]
            past[self.filled + 1] = results[1:]
            self.filled += 1
            return
        for i, first in enumerate(chain):
            known = self.map.setdefault(first, [])
            gram = (*(level[i] for level in levels), results[i])
            if gram in known:
                known.remove(gram)
            known.append(gram)
            del known[: -self.guesses]
        self.past = [past[1][1:], *past[2:], results]


@pytest.mark.parametrize(("ngram", "window", "guesses"), [(5, 7, 7), (3, 1, 1), (4, 3, 2), (3, 5, 4), (6, 2, 3)])
def test_every_round_is_that_of_the_published_code(ngram, window, guesses):
    drafter, published = Lookahead(ngram=ngram, window=window, guesses=guesses), None
    for text, round, _ in decode(drafter, 25):
        published = published or Published(
            np.random.default_rng(0).choice(np.array(PROMPT), window + ngram - 3).tolist(), ngram, guesses)
        tree, first = round.tree, round.events[0]
        pool = published.map.get(text[-1], [])
        assert {tuple(tree.token[tree.path(node)[1:]].tolist()) for node in first.nodes} == {
            gram[:end] for gram in pool for end in range(1, ngram)}
        expected = [published.past[0], *(
            [*published.past[0][:i], *column] for i, column in
            enumerate(zip(*(level for level in published.past[1:] if level is not None), strict=True)))]
        for branch in expected:
            node = 0
            for token in branch:
                node = tree.child(node, token)
                assert node > 0
        assert tree.size == 1 + len({tuple(branch[:end]) for branch in [*expected, *map(list, pool)]
                                     for end in range(1, len(branch) + 1)})
        published.step(text)


def test_the_text_is_the_targets_and_the_pool_is_accepted():
    rounds = list(decode(Lookahead(), 30))
    text, _, tokens = rounds[-1]
    text = [*text, *tokens]
    assert all(text[place] == favourite(text[:place]) for place in range(len(PROMPT), len(text)))
    assert max(len(tokens) for _, _, tokens in rounds) >= 3
    assert all(round.tree.score[1:].tolist() == [NEG_INF] * (round.tree.size - 1) for _, round, _ in rounds)


def test_the_window_fills_up_level_by_level():
    window, sizes = Window(list(range(9)), ngram=5), []
    for _ in range(5):
        sizes.append([window.full, window.size, len(window.chain), len(window.columns())])
        window.advance(list(range(len(window.columns()) or len(window.chain))))
    assert sizes == [[False, 9, 9, 0], [False, 17, 8, 9], [False, 23, 7, 8], [True, 27, 6, 7], [True, 27, 6, 7]]


def test_a_pool_keeps_the_newest():
    pool = Pool(2)
    for rest in [(1, 2), (3, 4), (1, 2), (5, 6)]:
        pool.add(9, rest)
    assert pool.after(9) == [(5, 6), (1, 2)]
    assert pool.after(8) == []


def test_without_room_the_window_waits_and_says_so():
    drafter = Lookahead()
    (_, small, _), (_, again, _) = decode(drafter, 2, budget=8)
    assert small.note == again.note == "the window needs 9 nodes and there is less room: raise the budget"
    clipped, = decode(drafter, 1, limit=3)
    assert clipped[1].kept.tolist() == [0, 1, 2, 3]
    assert drafter._window.size == 9
    assert len(list(decode(drafter, 1))) == 1
    assert drafter._window.size == 17


def test_layers_are_the_pool_and_the_window():
    *_, (_, round, _) = decode(Lookahead(), 12)
    pool, window, prune = round.events
    assert (pool.layer, window.layer) == (1, 2)
    assert prune.kept == list(range(round.tree.size))
