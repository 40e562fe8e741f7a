"""Successor rows: what the target last thought would follow each token (Token Recycling, arXiv 2408.08696).

A matrix of the vocabulary's size holds, for each token, the target's best next tokens at the last place where it saw
that token. Reading it costs nothing, and a tree of any shape can be read out of it by walking from row to row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from treegraft.drafters.base import Committed, Prefilled, RankingDrafter
from treegraft.settings import setting
from treegraft.trace.records import Learn
from treegraft.trace.runs import Run
from treegraft.tree import ROOT, DraftTree

WIDTH = 8
"""Successors kept of each token, as in the paper."""

EMPTY = -1
"""In a row: no successor known from here on."""

MAX_VOCAB = 1 << 20
"""Tokens with higher ids get no row. It bounds the memory that a trace from a stranger can ask for (32 MB)."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a matrix that are not empty: `tokens` [rows] ascending, their `successors` [rows, WIDTH], int32."""

    tokens: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32), repr=False)
    successors: np.ndarray = field(default_factory=lambda: np.zeros((0, WIDTH), np.int32), repr=False)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def fingerprint(self) -> str:
        """Hash of the contents."""
        return hashlib.sha256(self.tokens.tobytes() + self.successors.tobytes()).hexdigest()

    def within(self, vocab: int) -> Rows:
        """The same without tokens from `vocab` on."""
        tokens, successors = self.tokens, self.successors[self.tokens < vocab]
        known = successors < vocab
        order = np.argsort(~known, axis=1, kind="stable")
        moved = np.take_along_axis(np.where(known, successors, EMPTY), order, axis=1)
        some = moved[:, 0] != EMPTY
        return Rows(tokens[tokens < vocab][some], moved[some])


class Matrix:
    """The successor rows of all tokens, dense. It grows with the token ids that it sees, up to `MAX_VOCAB`."""

    def __init__(self, start: Rows) -> None:
        self._rows = np.full((0, WIDTH), EMPTY, np.int32)
        self.reset(start)

    def reset(self, start: Rows) -> None:
        """Know `start` alone."""
        self._rows.fill(EMPTY)
        self.write(start.tokens, start.successors)

    def __getitem__(self, tokens: np.ndarray) -> np.ndarray:
        """The rows of `tokens`: [tokens, WIDTH]."""
        places = np.minimum(tokens, MAX_VOCAB)
        if len(places) and places.max() >= len(self._rows):
            self._make_room(int(places.max()) + 1)
        return self._rows[places]

    def write(self, tokens: np.ndarray, successors: np.ndarray) -> np.ndarray:
        """Set the rows of `tokens`, in order, so that the last of several for one token stays.

        `successors` are [tokens, any k]; what is more than `WIDTH` is left out. Returns the tokens whose rows are now
        others than before, ascending.
        """
        kept, last = np.unique(tokens[::-1], return_index=True)
        new = np.full((len(kept), WIDTH), EMPTY, np.int32)
        given = successors[::-1][last, :WIDTH]
        new[:, : given.shape[1]] = given
        changed = (self[kept] != new).any(1) & (kept < MAX_VOCAB)
        self._rows[kept[changed]] = new[changed]
        return kept[changed]

    def known(self) -> Rows:
        """The rows that are not empty."""
        tokens = np.flatnonzero(self._rows[:, 0] != EMPTY)
        return Rows(tokens.astype(np.int32), self._rows[tokens])

    def _make_room(self, rows: int) -> None:
        """Have this many rows or more; the one at `MAX_VOCAB` stays empty, for all tokens from there on."""
        more = min(max(rows, 2 * len(self._rows)), MAX_VOCAB + 1) - len(self._rows)
        self._rows = np.pad(self._rows, ((0, more), (0, 0)), constant_values=EMPTY)


def learn_prompt(matrix: Matrix, prompt: Iterable[int], best: np.ndarray) -> None:
    """Take the target's best next tokens [prompt, k] at every position of a prompt, in the order of the text."""
    if len(best):
        matrix.write(np.array(prompt, np.int64), best)


def rebuild(run: Run, drafter: int, start: Rows | None = None) -> Rows:
    """What the drafter with this id knew at the end of a recorded run, from the trace alone.

    `start` is what it knew before: the rows that it was warmed up with.
    """
    matrix = Matrix(start or Rows())
    prefill = run.prefill
    if prefill and prefill.k:
        learn_prompt(matrix, run.header.prompt.tokens, np.array(prefill.tokens, np.int64).reshape(-1, prefill.k))
    for record in run.records:
        for event in record.events:
            if isinstance(event, Learn) and event.drafter == drafter and event.k:
                matrix.write(np.array(event.tokens, np.int64),
                             np.array(event.successors, np.int64).reshape(-1, event.k))
    return matrix.known()


@dataclass
class Successors(RankingDrafter):
    """Proposes the target's own best next tokens, as it last gave them after the same token.

    It learns from every prompt position and every verified node. With `learn` set to `committed` the rejected nodes are
    left out: its rows then depend on the text alone, not on the trees that were verified on the way.
    """

    name = "successors"
    prefill_k = verify_k = WIDTH

    learn: str = setting("all", "Verified nodes that it learns from: all, or committed (those accepted).",
                         choices=("all", "committed"))

    start: Rows = field(default_factory=Rows, repr=False, kw_only=True)
    """What it knows before a text begins."""
    title: str = field(default="successors", kw_only=True)
    vocab: int = field(default=MAX_VOCAB, kw_only=True)
    """How many tokens may be proposed; later ones are left out of `start`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._matrix = Matrix(Rows())

    @property
    def state(self) -> Literal["context", "history"]:
        return "history" if self.learn == "all" else "context"

    @property
    def label(self) -> str:
        return self.title

    @property
    def memory(self) -> str:
        return f"{len(self.start)} rows, sha256 {self.start.fingerprint[:8]}" if len(self.start) else ""

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._matrix.reset(self.start.within(self.vocab))
        learn_prompt(self._matrix, prefilled.prompt, prefilled.tokens)

    def successors(self, tokens: np.ndarray) -> np.ndarray:
        return self._matrix[tokens]

    def commit(self, tree: DraftTree, committed: Committed) -> Learn | None:
        """Learn the rows of the rejected nodes in their order, then those of the accepted path from the root down, so
        that the newest stay."""
        accepted = np.isin(committed.verified, np.append(ROOT, committed.path))
        order = np.flatnonzero(accepted)
        if self.learn == "all":
            order = np.append(np.flatnonzero(~accepted), order)
        nodes = committed.verified[order]
        if len(nodes) == 0:
            return None
        changed = self._matrix.write(tree.token[nodes], committed.best[order])
        if len(changed) == 0:
            return None
        return Learn(drafter=self.id, k=WIDTH, tokens=changed.tolist(),
                     successors=self._matrix[changed].ravel().tolist())

    def known(self) -> Rows:
        """What it knows now."""
        return self._matrix.known()
