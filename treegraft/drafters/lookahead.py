"""Lookahead decoding's window and pool: the target drafts for itself (arXiv 2402.02057).

The window guesses the tokens ahead and lets the target correct all of them at once, round by round (Jacobi iteration).
What its columns ran through are n-grams of the target, which go into a pool, and are drafted where they fit. All rows
of the window see a chain of tokens below the root, so window and drafts are branches of one tree, and one pass of the
target serves both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from treegraft.drafters.base import Committed, Drafter, Growth, Prefilled
from treegraft.drafters.lookup import Sketch
from treegraft.settings import setting
from treegraft.tree import NEG_INF, ROOT, DraftTree

Gram = tuple[int, ...]


class Pool:
    """N-grams by their first token: of each first token the `most` that were added last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest: dict[int, dict[Gram, None]] = {}

    def add(self, first: int, rest: Gram) -> None:
        known = self._rest.setdefault(first, {})
        known.pop(rest, None)
        known[rest] = None
        if len(known) > self._most:
            del known[next(iter(known))]

    def after(self, first: int) -> list[Gram]:
        """What follows a first token, the newest first."""
        return list(reversed(self._rest.get(first, {})))


class Window:
    """Levels of guessed tokens. The first is a chain below the root; token i of the second follows token i of root +
    chain, and token i of a later one follows token i of the level before it.

    It fills up first: the chain begins long and loses a token a round, while a level comes on top, until there are
    `ngram` - 1 of them, with `width` tokens each, the root counted.
    """

    def __init__(self, chain: list[int], ngram: int) -> None:
        self._levels, self._full = [chain], ngram - 1

    @property
    def full(self) -> bool:
        return len(self._levels) == self._full

    @property
    def chain(self) -> list[int]:
        return self._levels[0]

    @property
    def size(self) -> int:
        """How many tokens it has."""
        return sum(map(len, self._levels))

    def columns(self) -> list[Gram]:
        """The tokens of the later levels, column by column."""
        return list(zip(*self._levels[1:], strict=True))

    def advance(self, after: list[int]) -> None:
        """Move on by one token; `after` are the target's favourites behind each column, and at first behind each token
        of the chain."""
        chain, *later = self._levels
        if self.full:
            self._levels = [later[0][1:], *later[1:], after]
        elif later:
            self._levels = [level[1:] for level in (chain, *later, after)]
        else:
            self._levels = [chain[1:], after]


@dataclass
class Lookahead(Drafter):
    """Drafts what the pool has after the root (layer 1), and keeps the window going (layer 2).

    The window begins with tokens drawn from the prompt. It reads the target's favourites behind its own nodes, so what
    it proposes depends on where the rounds began.
    """

    name = "lookahead"
    state = "history"
    verify_k = 1

    ngram: int = setting(5, "Tokens of an n-gram; the window has one level less.", low=3, high=16)
    window: int = setting(7, "Columns of the window.", low=1, high=64)
    guesses: int = setting(7, "N-grams that are kept and drafted for each first token at most.", low=1, high=64)

    _window: Window = field(init=False, repr=False)
    _pool: Pool = field(init=False, repr=False)
    _ends: list[int] = field(init=False, repr=False)

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        drawn = np.random.default_rng(0).choice(np.array(prefilled.prompt), self.window + self.ngram - 3)
        self._window, self._pool, self._ends = Window(drawn.tolist(), self.ngram), Pool(self.guesses), []

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        sketch, note = Sketch(tree), ""
        if layer == 1:
            for rest in self._pool.after(int(tree.token[ROOT])):
                place(sketch, ROOT, rest)
        else:
            self._ends = ends_of(self._window, sketch)
            if not self._ends:
                note = f"the window needs {self._window.size} nodes and there is less room: raise the budget"
        created = sketch.write(self.id)
        return Growth(created=created, candidates=created, merged=np.array(sorted(sketch.merged), np.int64),
                      match=np.zeros(len(created), np.int64), final=layer > 1, note=note)

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        rows = np.searchsorted(committed.verified, self._ends)
        if not self._ends or not np.isin(self._ends, committed.verified).all():
            return  # no room for the whole window: it waits
        after = committed.best[rows, 0].tolist()
        if self._window.full:
            firsts = [int(tree.token[ROOT]), *self._window.chain]
            for first, column, token in zip(firsts, self._window.columns(), after, strict=True):
                self._pool.add(first, (*column, token))
        self._window.advance(after)


def place(sketch: Sketch, parent: int, run: Sequence[int]) -> list[int]:
    """Put a run below a node, as far as there is room; its nodes."""
    sketch.insert(parent, run, NEG_INF, -1, 0)
    nodes: list[int] = []
    for token in run:
        child = sketch.children(nodes[-1] if nodes else parent).get(token)
        if child is None:
            break
        nodes.append(child)
    return nodes


def ends_of(window: Window, sketch: Sketch) -> list[int]:
    """Put a window below the root. The nodes behind which the target is asked: the last of each column, or all of the
    chain where there are no columns yet; none if there is no room for all."""
    chain = place(sketch, ROOT, window.chain)
    if len(chain) < len(window.chain):
        return []
    columns = window.columns()
    branches = [place(sketch, parent, column) for parent, column in zip([ROOT, *chain], columns, strict=False)]
    if any(len(nodes) < len(column) for nodes, column in zip(branches, columns, strict=True)):
        return []
    return [nodes[-1] for nodes in branches] or chain
