"""Drafting with any causal language model that shares the target's tokens."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np
import torch

from treegraft.drafters.base import Committed, Prefilled, ScoringDrafter
from treegraft.models.cache import CachedModel, position_limit
from treegraft.models.sampler import Sampler
from treegraft.models.scores import NodeScores
from treegraft.models.timing import Stopwatch
from treegraft.settings import setting
from treegraft.trace.records import Forward
from treegraft.tree import ROOT, DraftTree

DEFAULT_ROWS = 2048
"""Rows of its cache before a text asks for more."""


def with_short_head(model: torch.nn.Module, ids: torch.Tensor) -> torch.nn.Module:
    """The same model (tensors shared) with an output head for the tokens `ids` alone."""
    head = model.get_output_embeddings()
    short = torch.nn.Linear(head.in_features, len(ids), bias=head.bias is not None, device="meta")
    short.weight = torch.nn.Parameter(head.weight.detach()[ids], requires_grad=False)
    if head.bias is not None:
        short.bias = torch.nn.Parameter(head.bias.detach()[ids], requires_grad=False)
    view = copy.copy(model)
    view._modules = dict(model._modules)
    view.set_output_embeddings(short)
    return view.eval()


@dataclass
class LM(ScoringDrafter):
    """A small causal LM with its own KV cache; rows of accepted nodes are kept, not computed again.

    `draft_vocab` n scores only the first n tokens of `ranking` (most frequent first; token id order where none is
    given, which for BPE vocabularies is roughly the order of frequency): a frequency-ranked head as in FR-Spec
    (arXiv 2502.14856), most of the saving for a small drafter with a large vocabulary.
    """

    name = "lm"

    draft_vocab: int = setting(0, "Score only this many of the most frequent tokens; 0 scores all.", low=0, high=2**20)

    model: torch.nn.Module = field(default=None, repr=False, kw_only=True)
    title: str = field(default="lm", kw_only=True)
    ranking: np.ndarray | None = field(default=None, repr=False, kw_only=True)
    vocab: int | None = field(default=None, kw_only=True)
    """How many tokens it shares with the target; embedding rows beyond are padding and never proposed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._cached: CachedModel | None = None
        self._ids: torch.Tensor | None = None
        self._text = np.zeros(0, np.int64)

    @property
    def label(self) -> str:
        return self.title

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    @property
    def proposes(self) -> int | None:
        return self.draft_vocab or None

    @property
    def cached(self) -> int | None:
        return self._cached.length

    def read_forwards(self) -> list[Forward]:
        return self._stopwatch.read(self.id)

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._open(max_context + capacity)
        self._limit = min(max_context, self.context_limit or max_context)
        self._stopwatch = Stopwatch(self._cached.device)
        self._cached.reset()
        self._row = np.full(capacity, -1)
        self._scores = NodeScores(capacity, self._ids)
        prompt = np.array(prefilled.prompt, np.int64)
        self._text = np.zeros(max_context + capacity, np.int64)
        self._text[: len(prompt) + 1] = *prompt, prefilled.root
        if len(prompt) <= self._limit:
            with self._stopwatch.lap(len(prompt)):
                for _ in self._cached.append(prompt):
                    pass

    def cost_points(self) -> list[tuple[int, int]]:
        return self._open(0).cost_points()

    def _open(self, rows: int) -> CachedModel:
        """The cached model, with at least `rows` rows."""
        if self._cached is None or self._cached.max_rows < rows:
            self._cached = self._make_cached(max(rows, DEFAULT_ROWS))
        return self._cached

    def _make_cached(self, rows: int) -> CachedModel:
        vocab = self.vocab or self.model.config.get_text_config().vocab_size
        if not 0 < self.draft_vocab < vocab:
            return CachedModel(self.model, rows, self.vocab)
        ranking = np.arange(vocab) if self.ranking is None else self.ranking[self.ranking < vocab]
        self._ids = torch.from_numpy(ranking[: self.draft_vocab].astype(np.int64)).to(self.model.device)
        return CachedModel(with_short_head(self.model, self._ids), rows)

    @property
    def context_limit(self) -> int:
        return position_limit(self.model.config) or 0

    def best(self, tree: DraftTree, nodes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        self._read(tree, nodes)
        return self._scores.best(nodes, k)

    def distribution(self, tree: DraftTree, nodes: np.ndarray, sampler: Sampler) -> np.ndarray:
        self._read(tree, nodes)
        return self._scores.distribution(nodes, sampler)

    def judge(self, tree: DraftTree, nodes: np.ndarray, ahead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parents = tree.parent[nodes]
        if (self._row[parents] < 0).any():
            self._read(tree, np.union1d(parents, ahead))
        return self._scores.judge(parents, tree.token[nodes])

    def _read(self, tree: DraftTree, nodes: np.ndarray) -> None:
        """One forward over those of `nodes` and the nodes above them that have not been read in this round."""
        missing = np.flatnonzero(tree.mask[nodes].any(0) & (self._row[: tree.size] < 0))
        if len(missing):
            self._scores.add(missing, self._forward(tree, missing))

    def _forward(self, tree: DraftTree, nodes: np.ndarray) -> torch.Tensor:
        """Logits [nodes, vocab] of `nodes`; committed tokens that the cache lacks go in front of them."""
        committed, cached = tree.context - 1, self._cached
        behind = np.arange(min(cached.length, committed), committed)
        rows = cached.length + len(behind) + np.arange(len(nodes))
        self._row[nodes] = rows
        known = np.flatnonzero(self._row[: tree.size] >= 0)
        visible = np.zeros((len(behind) + len(nodes), rows[-1] + 1), bool)
        visible[: len(behind)] = np.arange(visible.shape[1]) <= behind[:, None]
        visible[len(behind):, :committed] = True
        visible[len(behind):, self._row[known]] = tree.mask[nodes][:, known]
        tokens = np.concatenate((self._text[behind], tree.token[nodes]))
        positions = np.concatenate((behind, tree.positions[nodes]))
        with self._stopwatch.lap(len(tokens)):
            return cached.forward(tokens, positions, visible, logits=len(nodes))

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        rows = self._row[np.append(ROOT, committed.path)]
        start = min(self._cached.length, tree.context - 1)
        self._cached.keep(start, rows[rows >= 0])
        self._row[:] = -1
        self._scores.clear()
        self._text[tree.context: tree.context + len(committed.tokens)] = committed.tokens
