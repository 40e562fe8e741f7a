"""The lookup drafter against a literal, brute-force transcription of TreeGraft's weak drafter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treegraft.drafters.base import Committed, Prefilled
from treegraft.drafters.lookup import ContextIndex, Lookup
from treegraft.settings import SettingError
from treegraft.tree import NEG_INF, DraftTree

OTHER = 1
"""Drafter id of nodes that were in the tree already."""


@dataclass
class Reference:
    """The drafter as published: lists and dicts, the whole index built anew for every layer."""

    context: list[int]
    prompt: int
    rows: list[dict[int, int]]
    ngram: int
    k: int
    cap: int
    relax: bool
    token: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    score: list[int] = field(default_factory=list)
    origin: list[int] = field(default_factory=list)
    source: list[int | None] = field(default_factory=list)
    span: list[int] = field(default_factory=list)

    def start(self) -> None:
        for column in (self.token, self.parent, self.score, self.origin, self.source, self.span):
            column.clear()
        self.node(self.context[-1], -1, -1, None, -1)
        self.score[0] = 0

    def node(self, token: int, parent: int, origin: int, source: int | None, span: int) -> int:
        self.token.append(token)
        self.parent.append(parent)
        self.score.append(NEG_INF)
        self.origin.append(origin)
        self.source.append(source)
        self.span.append(span)
        return len(self.token) - 1

    def children(self, node: int) -> dict[int, int]:
        return {self.token[i]: i for i in range(len(self.token)) if self.parent[i] == node}

    def path(self, node: int) -> list[int]:
        return [*self.path(self.parent[node]), node] if node >= 0 else []

    def logprob(self, position: int, token: int) -> int:
        if position < 0 or position >= self.prompt or not self.rows:
            return 0
        row = self.rows[position]
        return row[token] if token in row else min(row.values()) - 500_000

    def exists(self, parent: int, suffix: tuple[int, ...]) -> bool:
        for token in suffix:
            if token not in self.children(parent):
                return False
            parent = self.children(parent)[token]
        return True

    def order(self, tokens: list[int]) -> list[int]:
        last = {token: position for position, token in enumerate(tokens)}
        count = Counter(tokens)
        return sorted(count, key=lambda token: (-count[token], -last[token], token))

    def relax_order(self) -> list[int]:
        seen = self.order(self.context)
        prompt = self.context[: self.prompt]
        anchor = self.order(prompt)[0]
        row = self.rows[max(i for i, token in enumerate(prompt) if token == anchor)] if self.rows else {}
        return seen + [token for token in row if token not in seen]

    def expand(self, p: int, layer: int) -> tuple[dict[int, int], bool]:
        """Copy below p; returns the local match lengths and whether p is terminated."""
        c = self.context
        length = max(1, self.ngram - (layer - 1))
        window = c[:-1] + [self.token[i] for i in self.path(p)]
        coverage = set(self.children(p))
        match: dict[int, int] = {}
        info: dict[tuple[int, ...], tuple[int, int, int]] = {}
        for n in range(min(self.ngram, len(window)), 0, -1):
            query = window[-n:]
            for s in range(len(c) - n + 1):
                a = s + n
                if c[s:a] != query or a + length > len(c):
                    continue
                suffix = tuple(c[a : a + length])
                child = suffix[0]
                match[child] = max(match.get(child, 0), n)
                coverage.add(child)
                if suffix not in info and not self.exists(p, suffix):
                    info[suffix] = (n, self.logprob(a - 1, child), a)
            if len(coverage) >= self.k:
                break
        enough = len(coverage) >= self.k
        if not enough and self.relax:
            for token in self.relax_order():
                if len(coverage) >= self.k:
                    break
                if token in coverage:
                    continue
                last = max((i for i, other in enumerate(c) if other == token), default=-1)
                suffix = tuple(c[last : last + length]) if last >= 0 else (token,)
                suffix += (token,) * (length - len(suffix))
                info[suffix] = (0, self.logprob(last - 1, token), last)
                coverage.add(token)
        for suffix, (n, logprob, position) in sorted(info.items(), key=lambda x: (-x[1][0], -x[1][2], x[0])):
            self.insert(p, suffix, n, logprob, position)
        return match, not enough and not self.relax

    def insert(self, p: int, suffix: tuple[int, ...], n: int, logprob: int, position: int) -> None:
        node = p
        for place, token in enumerate(suffix):
            child = self.children(node).get(token)
            if child is None:
                if len(self.token) >= self.cap:
                    return
                source = position + place if position + place < len(self.context) else position
                child = self.node(token, node, 0, None if position < 0 else source, n)
            if place == 0 and self.score[p] > NEG_INF:
                self.score[child] = max(self.score[child], self.score[p] + logprob)
            node = child

    def grow(self, parents: list[int], layer: int) -> tuple[list[tuple[int, int]], list[int], bool]:
        """Candidates (node, match), stopped parents, and whether drafting ends at once."""
        candidates, stopped = [], []
        for p in parents:
            match, terminated = self.expand(p, layer)
            if terminated:
                stopped.append(p)
            else:
                candidates += [(child, match.get(token, 0)) for token, child in self.children(p).items()]
        final = layer == 1 and len(stopped) == len(parents) and not self.children(0)
        if final:
            token = self.relax_order()[0]
            last = max(i for i, other in enumerate(self.context) if other == token)
            self.score[self.node(token, 0, 0, last, 0)] = 0
        return candidates, stopped, final


def prefilled(prompt: list[int], root: int, rows: list[dict[int, int]]) -> Prefilled:
    shape = len(rows), len(rows[0]) if rows else 0
    tokens = np.array([list(row) for row in rows], np.int64).reshape(shape)
    logprobs = np.array([list(row.values()) for row in rows], np.int64).reshape(shape)
    return Prefilled(prompt=prompt, root=root, tokens=tokens, logprobs=logprobs)


def assert_same(tree: DraftTree, reference: Reference) -> None:
    assert tree.token.tolist() == reference.token
    assert tree.parent.tolist() == reference.parent
    assert tree.score.tolist() == reference.score
    assert tree.origin.tolist() == reference.origin


def both_grow(tree: DraftTree, drafter: Lookup, reference: Reference, parents: list[int], layer: int, k: int):
    """Grow tree and reference, compare everything, return the candidates (node, match)."""
    before, old = tree.size, tree.score.copy()
    growth = drafter.grow(tree, np.array(parents), layer, k)
    candidates, stopped, final = reference.grow(parents, layer)
    assert_same(tree, reference)
    assert sorted(zip(growth.candidates.tolist(), growth.match.tolist(), strict=True)) == sorted(candidates)
    assert (growth.stopped, growth.final) == (stopped, final)
    assert growth.created.tolist() == list(range(before, tree.size))
    assert growth.source == reference.source[before:]
    assert growth.span == reference.span[before:]
    assert growth.raised == np.flatnonzero(tree.score[:before] != old).tolist()
    assert np.all(tree.proposers[growth.merged] & 1)
    assert np.all(growth.merged < before)
    return candidates


@st.composite
def texts(draw):
    """A prompt over few tokens, the target's rows for it (or none), and the settings of a drafter."""
    vocabulary = draw(st.integers(1, 7))
    token = st.integers(0, vocabulary - 1)
    prompt = draw(st.lists(token, min_size=1, max_size=40))
    width = draw(st.integers(0, 3))
    row = st.dictionaries(st.integers(0, 9), st.integers(-900_000, 0), min_size=width, max_size=width)
    rows = draw(st.lists(row, min_size=len(prompt), max_size=len(prompt))) if width else []
    return token, prompt, rows, draw(st.integers(1, 6)), draw(st.integers(1, 8)), draw(st.booleans())


@settings(max_examples=300, deadline=None)
@given(texts(), st.data())
def test_rounds_equal_the_reference(text, data):
    """Several rounds of the growth loop, each on the tokens that the rounds before committed."""
    token, prompt, rows, ngram, k, relax = text
    root = data.draw(token)
    drafter = Lookup(ngram=ngram, relax=relax)
    drafter.begin(prefilled(prompt, root, rows), 1000, 1000)
    context = [*prompt, root]
    for _ in range(data.draw(st.integers(1, 4))):
        cap = data.draw(st.integers(2, 80))
        reference = Reference(context, len(prompt), rows, ngram, k, cap, relax)
        reference.start()
        tree = DraftTree(context[-1], len(context), cap)
        frontier = [0]
        for layer in range(1, 5):
            candidates = both_grow(tree, drafter, reference, frontier, layer, k)
            ranked = sorted(candidates, key=lambda x: (-x[1], -tree.score[x[0]], x[0]))
            frontier = [node for node, _ in ranked][: None if layer == 1 else k]
            if not frontier:
                break
        path = tree.path(data.draw(st.integers(0, tree.size - 1)))[1:]
        tokens = [*tree.token[path].tolist(), *data.draw(st.lists(token, min_size=1, max_size=3))]
        drafter.commit(tree, Committed(path, tokens))
        context = context + tokens


@settings(max_examples=200, deadline=None)
@given(texts(), st.data())
def test_growing_a_mixed_tree_equals_the_reference(text, data):
    """Parents of any depth, one above another, in a tree that another drafter has filled and scored."""
    token, prompt, rows, ngram, k, relax = text
    context = [*prompt, data.draw(token)]
    drafter = Lookup(ngram=ngram, relax=relax)
    drafter.begin(prefilled(prompt, context[-1], rows), 1000, 1000)
    cap = data.draw(st.integers(15, 40))
    reference = Reference(context, len(prompt), rows, ngram, k, cap, relax)
    reference.start()
    tree = DraftTree(context[-1], len(context), cap)
    for _ in range(data.draw(st.integers(0, 12))):
        parent, new = data.draw(st.integers(0, tree.size - 1)), data.draw(token)
        score = data.draw(st.sampled_from([NEG_INF, -1_000_000, -300_000]))
        if tree.child(parent, new) < 0:
            tree.add(np.array([parent]), np.array([new]), np.array([score]), OTHER)
            reference.score[reference.node(new, parent, OTHER, None, -1)] = score
    parents = data.draw(st.lists(st.integers(0, tree.size - 1), min_size=1, max_size=5, unique=True))
    both_grow(tree, drafter, reference, parents, data.draw(st.integers(1, 6)), k)


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 6))
def test_index_lists_every_gram_once(tokens, longest):
    index = ContextIndex(longest)
    for token in tokens:
        index.append(token)
    for length in range(1, longest + 1):
        grams = [tuple(tokens[i : i + length]) for i in range(len(tokens) - length + 1)]
        assert sorted(index.continuations(0, length)) == sorted({gram: i for i, gram in
                                                                 reversed(list(enumerate(grams)))}.values())


PROMPT = [7, 1, 2, 3, 7, 1]
TEXT = [*PROMPT, 2, 4, 7, 1]


def example(**settings) -> Lookup:
    """The drafter of the worked examples: its prompt's tokens have log-prob -0.5, its context is `TEXT`."""
    rows = [{token: -50_000} for token in TEXT[1:7]]
    drafter = Lookup(ngram=3, **settings)
    drafter.begin(prefilled(PROMPT, TEXT[6], rows), 100, 100)
    drafter.commit(DraftTree(TEXT[6], 7, 15), Committed(np.array([], np.int64), TEXT[7:]))
    return drafter


def columns(tree: DraftTree, first: int = 1) -> list[tuple[int, int, int]]:
    return list(zip(tree.token.tolist(), tree.parent.tolist(), tree.score.tolist(), strict=True))[first:]


def test_worked_example_without_calls():
    tree = DraftTree(1, len(TEXT), 15)
    growth = example().grow(tree, np.array([0]), 1, 2)
    assert columns(tree) == [(2, 0, -50_000), (4, 1, NEG_INF), (7, 2, NEG_INF), (3, 1, NEG_INF), (7, 4, NEG_INF)]
    assert growth.stopped == [0]
    assert len(growth.candidates) == 0
    assert growth.source == [6, 7, 8, 3, 4]
    assert growth.span == [2] * 5
    assert not growth.final


def test_worked_example_after_a_call():
    """Layer 1 was a call of a stronger drafter; layers 2 and 3 copy."""
    tree = DraftTree(1, len(TEXT), 15)
    tree.add(np.array([0, 0]), np.array([2, 3]), np.array([-51_100, -120_400]), OTHER)
    drafter = example()
    growth = drafter.grow(tree, np.array([1, 2]), 2, 2)
    assert columns(tree, 3) == [(4, 1, -51_100), (7, 3, NEG_INF), (3, 1, -101_100), (7, 5, NEG_INF),
                                (7, 2, -170_400), (1, 7, NEG_INF)]
    assert growth.stopped == [2]
    assert growth.candidates.tolist() == [3, 5]
    last = drafter.grow(tree, np.array([3, 5]), 3, 2)
    assert last.stopped == [3, 5]
    assert len(last.candidates) == len(last.created) == 0
    assert tree.best(7).tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_frequent_token_where_nothing_matches():
    """Ties between equally frequent tokens go to the one seen last."""
    drafter = Lookup()
    drafter.begin(prefilled([5, 6, 5, 8, 6, 9], 4, []), 100, 100)
    tree = DraftTree(4, 7, 511)
    growth = drafter.grow(tree, np.array([0]), 1, 10)
    assert columns(tree) == [(6, 0, 0)]
    assert growth.final
    assert (growth.source, growth.span, growth.stopped) == ([4], [0], [0])
    assert len(growth.candidates) == 0


def test_tokens_outside_the_targets_best_get_a_floor():
    drafter = Lookup(ngram=1)
    drafter.begin(prefilled([1, 2, 1, 3], 1, [{9: -10, 8: -20}] * 4), 100, 100)
    tree = DraftTree(1, 5, 511)
    drafter.grow(tree, np.array([0]), 1, 1)
    assert columns(tree) == [(3, 0, -500_020), (2, 0, -500_020)]


def test_a_merged_node_gains_the_drafter_and_the_higher_score():
    drafter = example()
    tree = DraftTree(1, len(TEXT), 15)
    tree.add(np.array([0]), np.array([2]), np.array([-99_000]), OTHER)
    growth = drafter.grow(tree, np.array([0]), 1, 2)
    assert growth.merged.tolist() == growth.raised == [1]
    assert (tree.score[1], tree.proposers[1], tree.origin[1]) == (-50_000, 0b11, OTHER)


def test_a_run_already_there_is_merged_but_not_scored():
    drafter = Lookup(ngram=1)
    drafter.begin(prefilled([1, 2], 1, []), 100, 100)
    tree = DraftTree(1, 3, 15)
    tree.add(np.array([0]), np.array([2]), np.array([-99_000]), OTHER)
    growth = drafter.grow(tree, np.array([0]), 1, 1)
    assert growth.merged.tolist() == growth.candidates.tolist() == [1]
    assert growth.match.tolist() == [1]
    assert growth.raised == []
    assert (tree.score[1], tree.proposers[1]) == (-99_000, 0b11)


def test_begin_forgets_the_last_text():
    drafter = example()
    drafter.begin(prefilled([1, 2], 3, []), 100, 100)
    tree = DraftTree(3, 3, 15)
    assert drafter.grow(tree, np.array([0]), 1, 1).final


def test_settings_are_checked():
    with pytest.raises(SettingError, match="ngram was 0; allowed: 1 to 10"):
        Lookup(ngram=0)
