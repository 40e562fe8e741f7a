"""Drafting a block at once with a DFlash drafter (arXiv 2602.06036), which reads the target's hidden states.

The block is the root followed by masks, and one forward fills all masks. Of the text before the root the drafter knows
only what the target's layers put out there, so nothing that it made up itself ever enters its cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from treegraft.drafters.base import BlockDrafter, Committed, Prefilled
from treegraft.models.cache import position_limit
from treegraft.models.cached_block import CachedBlock
from treegraft.models.capture import side_by_side
from treegraft.models.dflash import BlockNet
from treegraft.models.timing import Stopwatch
from treegraft.models.topk import top_tokens
from treegraft.trace.records import Forward
from treegraft.tree import ROOT, DraftTree

DEFAULT_ROWS = 2048
"""Rows of its cache before a text asks for more."""


@dataclass
class Block(BlockDrafter):
    """A DFlash drafter with its own KV cache: a few layers that fill the next tokens in one forward.

    Each place takes its favourite token, whatever stands beside it: probabilities are those of one place given the
    text, not given the tokens before it in the block. Proposals depend on the context alone.
    """

    name = "block"

    net: BlockNet = field(default=None, repr=False, kw_only=True)
    embeddings: torch.Tensor = field(default=None, repr=False, kw_only=True)
    """What the network knows tokens by, [vocab, hidden]."""
    head: torch.nn.Module = field(default=None, repr=False, kw_only=True)
    """The output head, often the target's own."""
    ids: np.ndarray = field(default=None, repr=False, kw_only=True)
    """The target's ids of the tokens that the head scores."""
    title: str = field(default="block", kw_only=True)
    vocab: int | None = field(default=None, kw_only=True)
    """How many tokens may be proposed; ids beyond are padding."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._cached: CachedBlock | None = None

    @property
    def label(self) -> str:
        return self.title

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.net.parameters())

    @property
    def aux_layers(self) -> tuple[int, ...]:
        return self.net.config.aux_layers

    @property
    def proposes(self) -> int | None:
        return None if len(self.ids) == len(self.embeddings) else len(self.ids)

    @property
    def context_limit(self) -> int:
        return position_limit(self.net.config.layer) or 0

    @property
    def cached(self) -> int | None:
        return self._cached.length

    def read_forwards(self) -> list[Forward]:
        return self._stopwatch.read(self.id)

    def cost_points(self) -> list[tuple[int, int]]:
        return self._open(0).cost_points(self.head)

    def _open(self, rows: int) -> CachedBlock:
        """The network with a cache of at least `rows` rows."""
        if self._cached is None or self._cached.max_rows < rows:
            self._cached = CachedBlock(self.net, self.embeddings, max(rows, DEFAULT_ROWS))
            usable = np.flatnonzero(self.ids < (self.vocab or self.embeddings.shape[0]))
            columns = torch.from_numpy(usable).to(self._cached.device)
            self._columns = None if len(usable) == len(self.ids) else columns
            self._ids = torch.from_numpy(self.ids).to(self._cached.device)[columns]
        return self._cached

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._open(max_context).length = 0
        self._stopwatch = Stopwatch(self._cached.device)
        self._limit = self.context_limit or max_context + self.net.config.block
        self._behind = torch.zeros(0)
        if len(prefilled.prompt) < self._limit:
            self._behind = side_by_side(prefilled.states, self.aux_layers)
            with self._stopwatch.lap(len(self._behind)):
                self._catch_up()

    @torch.inference_mode()
    def fill(self, tree: DraftTree) -> tuple[np.ndarray, np.ndarray]:
        config = self.net.config
        size = min(config.block, self._limit - (tree.context - 1))
        first = 0 if config.from_anchor else 1
        if size <= first:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        with self._stopwatch.lap(size):
            self._catch_up()
            logits = self.head(self._cached.fill(int(tree.token[ROOT]), size)[first:])
            logits = logits if self._columns is None else logits[:, self._columns]
            tokens, logprobs = top_tokens(logits, 1, self._ids)
        return tokens[:, 0], logprobs[:, 0]

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        if committed.states and tree.context <= self._limit:
            self._behind = torch.cat((self._behind, side_by_side(committed.states, self.aux_layers)))

    @torch.inference_mode()
    def _catch_up(self) -> None:
        """Read the committed text that is not yet in the cache."""
        if len(self._behind):
            self._cached.append(self._behind)
            self._behind = self._behind[:0]
