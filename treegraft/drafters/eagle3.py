"""Drafting with an EAGLE-3 head: one decoder layer that goes on from the target's hidden states (arXiv 2503.01840).

Row i of the head's cache pairs the state at position i with the token at position i + 1, and scores the token after
that. Where the target has been, the state is fused from its hidden states; so a row whose token is committed is never
drafted, only read. In the tree the state is what the head itself put out at the parent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn.functional import linear

from treegraft.drafters.base import Committed, Prefilled, ScoringDrafter
from treegraft.models.cache import PREFILL_CHUNK, position_limit
from treegraft.models.cached_head import CachedHead
from treegraft.models.capture import side_by_side
from treegraft.models.eagle3 import Eagle3Head
from treegraft.models.sampler import Sampler
from treegraft.models.scores import NodeScores
from treegraft.models.timing import Stopwatch
from treegraft.trace.records import Forward
from treegraft.tree import ROOT, DraftTree

DEFAULT_ROWS = 2048
"""Rows of its cache before a text asks for more."""


@dataclass
class Eagle3(ScoringDrafter):
    """An EAGLE-3 head with its own KV cache: a single layer that reads three of the target's hidden states.

    What the target accepts is read again from the target's states, together with the next root, so proposals depend on
    the context alone. Tokens outside the draft vocabulary can be read but are never proposed.
    """

    name = "eagle3"

    head: Eagle3Head = field(default=None, repr=False, kw_only=True)
    embeddings: torch.Tensor = field(default=None, repr=False, kw_only=True)
    """What the head knows tokens by, [vocab, hidden]."""
    ids: np.ndarray = field(default=None, repr=False, kw_only=True)
    """The target's ids of the tokens that the head scores."""
    title: str = field(default="eagle3", kw_only=True)
    vocab: int | None = field(default=None, kw_only=True)
    """How many tokens may be proposed; ids beyond are padding."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._cached: CachedHead | None = None

    @property
    def label(self) -> str:
        return self.title

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.head.parameters())

    @property
    def aux_layers(self) -> tuple[int, ...]:
        return self.head.config.aux_layers

    @property
    def proposes(self) -> int | None:
        return len(self.ids)

    @property
    def cached(self) -> int | None:
        return self._cached.length

    def read_forwards(self) -> list[Forward]:
        return self._stopwatch.read(self.id)

    def cost_points(self) -> list[tuple[int, int]]:
        return self._open(0).cost_points()

    def _open(self, rows: int) -> CachedHead:
        """The head with a cache of at least `rows` rows."""
        if self._cached is None or self._cached.max_rows < rows:
            self._cached = CachedHead(self.head, self.embeddings, max(rows, DEFAULT_ROWS))
            usable = np.flatnonzero(self.ids < (self.vocab or self.embeddings.shape[0]))
            columns = torch.from_numpy(usable).to(self._cached.device)
            weight = self.head.lm_head.weight
            self._weight = weight if len(usable) == len(weight) else weight[columns]
            self._ids = torch.from_numpy(self.ids).to(self._cached.device)[columns]
        return self._cached

    @torch.inference_mode()
    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._open(max_context + capacity).length = 0
        self._limit = min(max_context, self.context_limit or max_context)
        self._stopwatch = Stopwatch(self._cached.device)
        self._place = np.full(capacity, -1)
        self._scores = NodeScores(capacity, self._ids)
        prompt = len(prefilled.prompt)
        self._text = np.zeros(max_context + capacity, np.int64)
        self._text[: prompt + 1] = *prefilled.prompt, prefilled.root
        self._behind = self._states = self._readings = torch.zeros(0)
        if prompt < self._limit:
            self._behind = side_by_side(prefilled.states, self.aux_layers)
            self._catch_up(spare=1)

    @property
    def context_limit(self) -> int:
        return position_limit(self.head.config.layer) or 0

    def best(self, tree: DraftTree, nodes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        self._score(tree, nodes)
        return self._scores.best(nodes, k)

    def distribution(self, tree: DraftTree, nodes: np.ndarray, sampler: Sampler) -> np.ndarray:
        self._score(tree, nodes)
        return self._scores.distribution(nodes, sampler)

    def judge(self, tree: DraftTree, nodes: np.ndarray, ahead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parents = tree.parent[nodes]
        unread = (self._place[parents] < 0).any()
        self._score(tree, np.union1d(parents, ahead) if unread else np.unique(parents))
        return self._scores.judge(parents, tree.token[nodes])

    @torch.inference_mode()
    def _score(self, tree: DraftTree, nodes: np.ndarray) -> None:
        """Read what has not been read of `nodes` and the nodes above them, and score what has not been scored."""
        levels = self._levels(tree, nodes)
        for level in levels:
            with self._stopwatch.lap(len(self._behind) if level[0] == ROOT else len(level)):
                self._read(tree, level)
                if level is levels[-1]:
                    self._score_read(nodes)
        if not levels:
            self._score_read(nodes)

    @torch.inference_mode()
    def commit(self, tree: DraftTree, committed: Committed) -> None:
        self._cached.length = min(self._cached.length, tree.context - 1)
        self._states, self._readings = self._states[:1], self._readings[:1]
        self._place[:] = -1
        self._scores.clear()
        self._text[tree.context: tree.context + len(committed.tokens)] = committed.tokens
        if committed.states and tree.context < self._limit:
            self._behind = torch.cat((self._behind, side_by_side(committed.states, self.aux_layers)))
            self._catch_up(spare=PREFILL_CHUNK)

    def _levels(self, tree: DraftTree, nodes: np.ndarray) -> list[np.ndarray]:
        """Which of `nodes` and the nodes above them lack a row, level by level.

        They are more than `nodes` where another drafter grew the tree in between: a state needs its parent's.
        """
        lacking = np.flatnonzero(tree.mask[nodes].any(0) & (self._place[: tree.size] < 0))
        depth = tree.depth[lacking]
        order = np.argsort(depth, kind="stable")
        return np.split(lacking[order], np.flatnonzero(np.diff(depth[order])) + 1) if len(lacking) else []

    def _read(self, tree: DraftTree, level: np.ndarray) -> None:
        """One forward over a level; the root brings the committed text behind it along."""
        if level[0] == ROOT:
            self._read_text(len(self._behind))
            self._place[ROOT] = 0
        else:
            self._read_nodes(tree, level)

    def _score_read(self, nodes: np.ndarray) -> None:
        """Score those of the nodes, all read by now, that have no scores."""
        missing = self._scores.missing(nodes)
        if len(missing):
            self._scores.add(missing, linear(self._at(self._readings, missing), self._weight))

    def _catch_up(self, spare: int) -> None:
        """Read the committed text, a chunk at a time, until at most `spare` positions are left for the next round."""
        while len(self._behind) > spare:
            count = min(PREFILL_CHUNK, len(self._behind) - spare)
            with self._stopwatch.lap(count):
                self._read_text(count)

    def _read_text(self, count: int) -> None:
        """Read the next `count` positions of the text from the target's states."""
        start = self._cached.length
        positions = np.arange(start, start + count)
        if count:
            state, reading = self._cached.forward(
                self._text[positions + 1], self._cached.fuse(self._behind[:count]), positions,
                np.arange(start + count) <= positions[:, None])
            self._behind = self._behind[count:]
            self._states, self._readings = state[-1:], reading[-1:]

    def _read_nodes(self, tree: DraftTree, nodes: np.ndarray) -> None:
        """Read nodes whose parents have been read. A node's place in `_states` is that of its row behind the root's."""
        above = self._at(self._states, tree.parent[nodes])
        before = tree.context - 2
        self._place[nodes] = len(self._states) + np.arange(len(nodes))
        known = np.flatnonzero(self._place[: tree.size] >= 0)
        visible = np.zeros((len(nodes), before + len(self._states) + len(nodes)), bool)
        visible[:, :before] = True
        visible[:, before + self._place[known]] = tree.mask[np.ix_(nodes, known)]
        state, reading = self._cached.forward(tree.token[nodes], above, tree.positions[nodes] - 1, visible)
        self._states = torch.cat((self._states, state))
        self._readings = torch.cat((self._readings, reading))

    def _at(self, rows: torch.Tensor, nodes: np.ndarray) -> torch.Tensor:
        """The rows of `nodes` in `_states` or `_readings`."""
        return rows[torch.from_numpy(self._place[nodes]).to(rows.device)]
