"""What a policy knows of a drafter: it grows a tree below some nodes, and is told what was committed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from treegraft.settings import Configurable
from treegraft.trace.records import Forward
from treegraft.tree import DraftTree, path_scores

States = Mapping[int, Any]
"""The target's hidden states by layer (from 0, the layer's output): tensors [positions, hidden] on its device."""


@dataclass
class Growth:
    """What one `grow` did to the tree.

    `candidates` are the nodes that may be expanded next (new or already there), `match` their match length (0 for
    drafters that do not copy). `created` are the new nodes. `source` and `span`, aligned with `created`, are given by
    drafters that copy from the context: the position copied from (`None` for a token that is not in the context), and
    the match length of the span. `stopped` are the parents whose children must not be expanded, `raised` the older
    nodes whose score rose. `final` ends the drafting of this round; `note` says why nothing
    came.
    """

    created: np.ndarray
    candidates: np.ndarray
    merged: np.ndarray
    match: np.ndarray
    source: list[int | None] | None = None
    span: list[int] | None = None
    stopped: list[int] = field(default_factory=list)
    raised: list[int] = field(default_factory=list)
    final: bool = False
    note: str = ""


@dataclass
class Prefilled:
    """What the target's pass over the prompt tells the drafters.

    `root` is the token that the target chose after the prompt. `tokens` and `logprobs` are [prompt, k]: the target's
    best next tokens at every prompt position and their log-probs in 1e-5 nats, empty where no drafter asked for them.
    `states` are those of the prompt's positions, for the layers that a drafter asked for; they are there while the
    drafters begin, and dropped then.
    """

    prompt: Sequence[int]
    root: int
    tokens: np.ndarray
    logprobs: np.ndarray
    states: States = field(default_factory=dict)


@dataclass
class Drafter(Configurable, ABC):
    """Proposes tokens. A drafter serves one decode at a time: `begin`, then `grow` and `commit` round by round.

    `name` is its kind in the registry. `state` is `context` if proposals depend on the context alone, else `history`.
    `scores_tokens` says that proposals carry probabilities, which best-first policies need. `prefill_k` is how many of
    the target's best tokens it wants to know at every prompt position.
    """

    name: ClassVar[str]
    state: ClassVar[Literal["context", "history"]] = "context"
    scores_tokens: ClassVar[bool] = True
    prefill_k: ClassVar[int] = 0

    id: int = field(default=0, init=False)

    @property
    def label(self) -> str:
        """Name shown to the user."""
        return self.name

    @property
    def parameters(self) -> int:
        return 0

    @property
    def aux_layers(self) -> tuple[int, ...]:
        """The target layers whose hidden states it wants to be told, numbered from 0."""
        return ()

    @property
    def proposes(self) -> int | None:
        """How many of the target's tokens it can propose, None for all of them."""
        return None

    @property
    def cached(self) -> int | None:
        """Tokens in its KV cache, None for a drafter without one."""
        return None

    def read_forwards(self) -> list[Forward]:
        """Its model forwards since the last call, in order, with their times."""
        return []

    def cost_points(self) -> list[tuple[int, int]]:
        """[tokens, microseconds] of its forwards, measured now; empty for a drafter that runs no model."""
        return []

    @abstractmethod
    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        """A new text of at most `max_context` tokens starts, with trees of at most `capacity` nodes; forget the last
        one."""

    @abstractmethod
    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        """Add children below `parents`: up to `k` a parent, in layer `layer` (from 1) of the round."""

    @abstractmethod
    def commit(self, tree: DraftTree, path: np.ndarray, tokens: Sequence[int], states: States) -> None:
        """The target accepted `path` (node ids, root left out); `tokens` (path and bonus) now end the context.

        `states` are the target's at the root and along the path.
        """


def add_topk(tree: DraftTree, parents: np.ndarray, tokens: np.ndarray, logprobs: np.ndarray, drafter: int) -> Growth:
    """Add the [parents, k] best next tokens of a drafter that scores tokens; all of them become candidates."""
    before = tree.size
    scores = path_scores(tree.score[parents][:, None], logprobs)
    nodes = tree.add(np.repeat(parents, tokens.shape[1]), tokens.ravel(), scores.ravel(), drafter)
    nodes = nodes[nodes >= 0]
    return Growth(created=np.arange(before, tree.size), candidates=nodes, merged=nodes[nodes < before],
                  match=np.zeros(len(nodes), np.int64))
