"""What a policy knows of a drafter: it grows a tree below some nodes, and is told what was committed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from treegraft.settings import Configurable
from treegraft.trace.records import NATS, Forward, Learn
from treegraft.tree import DraftTree, path_scores
from treegraft.verify import Draws

if TYPE_CHECKING:
    from treegraft.models.sampler import Sampler

States = Mapping[int, Any]
"""The target's hidden states by layer (from 0, the layer's output): tensors [positions, hidden] on its device."""

RANK_DECAY = 1.3
"""How fast a successor counts for less with its rank, as a power of the rank."""


@dataclass
class Growth:
    """What one `grow` did to the tree.

    `candidates` are the nodes that may be expanded next (new or already there), `match` their match length (0 for
    drafters that do not copy). `created` are the new nodes. `source` and `span`, aligned with `created`, are given by
    drafters that copy from the context: the position copied from (`None` for a token that is not in the context), and
    the match length of the span; `rank` by those that rank: the place of each token in the row of its parent's.
    `stopped` are the parents whose children must not be expanded, `raised` the older
    nodes whose score rose. `final` ends the drafting of this round; `note` says why nothing
    came.
    """

    created: np.ndarray
    candidates: np.ndarray
    merged: np.ndarray
    match: np.ndarray
    source: list[int | None] | None = None
    span: list[int] | None = None
    rank: list[int] | None = None
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


@dataclass(frozen=True)
class Committed:
    """What a round added to the context: the accepted `path` (node ids, root left out) and its `tokens`, the bonus
    included.

    `states` are the target's at the root and along the path. `logprobs` are those of `tokens` under the target in 1e-5
    nats, None where no drafter reads them. `best` are the target's best next tokens, best first, after each of the
    `verified` nodes (ids, ascending): [verified, k], with k = 0 where no drafter asked for them. `rivals` are its best
    tokens where it chose the bonus (the first of them, unless it was drawn at random): [k].
    """

    path: np.ndarray
    tokens: Sequence[int]
    states: States = field(default_factory=dict)
    logprobs: np.ndarray | None = None
    verified: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    best: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    rivals: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass
class Drafter(Configurable, ABC):
    """Proposes tokens. A drafter serves one decode at a time: `begin`, then `grow` and `commit` round by round.

    `name` is its kind in the registry. `state` is `context` if proposals depend on the context alone, else `history`.
    `scores_tokens` says that proposals carry probabilities (see `ScoringDrafter`), which best-first policies need.
    `prefill_k` is how many of the target's best tokens it wants to know at every prompt position, `verify_k` how many
    at every verified node, `rivals_k` how many where it chose the bonus alone.
    """

    name: ClassVar[str]
    state: ClassVar[Literal["context", "history"]] = "context"
    scores_tokens: ClassVar[bool] = False
    prefill_k: ClassVar[int] = 0
    verify_k: ClassVar[int] = 0
    rivals_k: ClassVar[int] = 0

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
    def context_limit(self) -> int:
        """How many tokens of any text it can read, 0 where nothing bounds it."""
        return 0

    @property
    def memory(self) -> str:
        """What it has learned from other texts, in words that identify it; empty for nothing."""
        return ""

    @property
    def reads_logprobs(self) -> bool:
        """Whether it wants the target's log-probs of what is committed."""
        return False

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
    def commit(self, tree: DraftTree, committed: Committed) -> Learn | None:
        """The target accepted a path of `tree`; its tokens and the bonus now end the context.

        Returns what the drafter has learned from the round, beyond the text itself.
        """


class RankingDrafter(Drafter):
    """A drafter that ranks next tokens by the last token alone, and gives them no probabilities."""

    @abstractmethod
    def successors(self, tokens: np.ndarray) -> np.ndarray:
        """The next tokens that it knows after each of `tokens`, best first: [tokens, k], -1 beyond the last."""

    def follow(self, tree: DraftTree, parents: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, Growth]:
        """Add below each of `parents` its successor of one rank, given by `ranks`: pairs that differ from one another.

        Returns the node of each pair, -1 where there is no such successor or no room, and the growth. Scores are those
        of the parents plus `rank_prior`.
        """
        rows = self.successors(tree.token[parents])
        before, nodes, known = tree.size, np.full(len(parents), -1), np.flatnonzero(ranks < rows.shape[1])
        known = known[rows[known, ranks[known]] >= 0]
        scores = path_scores(tree.score[parents[known]], rank_prior(rows.shape[1])[ranks[known]])
        nodes[known] = tree.add(parents[known], rows[known, ranks[known]], scores, self.id)
        there = nodes[nodes >= 0]
        return nodes, Growth(
            created=np.arange(before, tree.size), candidates=there, merged=there[there < before],
            match=np.zeros(len(there), np.int64), rank=ranks[nodes >= before].tolist(),
            stopped=np.unique(parents[rows[:, 0] < 0]).tolist())

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        """Add the first k known successors of every parent; all of them become candidates."""
        return self.follow(tree, np.repeat(parents, k), np.tile(np.arange(k), len(parents)))[1]


@cache
def rank_prior(k: int) -> np.ndarray:
    """What a successor of each rank counts, in 1e-5 nats [k]: the shares of weights (rank + 1)^-1.3.

    A prior that orders paths of ranks, not a measured probability.
    """
    weights = np.arange(1, k + 1) ** -RANK_DECAY
    prior = np.rint(np.log(weights / weights.sum()) * NATS).astype(np.int64)
    prior.flags.writeable = False
    return prior


class BlockDrafter(Drafter):
    """A drafter that fills the next places of the text all at once, each without knowing what the others hold.

    So the log-prob of a place is that of its token given the text alone (a marginal): a score, summed along the chain,
    is no probability of the chain. It cannot say what follows any other node, so it does not count as scoring tokens.
    Log-probs are integers in 1e-5 nats, rounded once, here.
    """

    @abstractmethod
    def fill(self, tree: DraftTree) -> tuple[np.ndarray, np.ndarray]:
        """The favourite token of each place after the root, and its log-prob: [places] each.

        They are empty where its context ends.
        """

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        """Add the first `k` places of the block as a chain below the root, which must be alone in the tree."""
        tokens, logprobs = (part[: min(k, tree.room)] for part in self.fill(tree))
        above = np.arange(len(tokens))
        nodes = tree.append(above, tokens, path_scores(tree.score[0], np.cumsum(logprobs)), self.id)
        note = "" if len(nodes) else f"{self.label} is at the end of its context of {self.context_limit} tokens"
        return Growth(created=nodes, candidates=nodes, merged=nodes[:0], match=np.zeros(len(nodes), np.int64),
                      final=True, note=note)


class ScoringDrafter(Drafter):
    """A drafter that gives every token a probability. Log-probs are integers in 1e-5 nats, rounded once, here.

    It reads a node at most once a round, however often it is asked. `_limit` is how many tokens of the present text it
    can read; `begin` sets it.
    """

    scores_tokens: ClassVar[bool] = True
    _limit: int

    def limits(self, tree: DraftTree, nodes: np.ndarray) -> str:
        """Why it cannot read these nodes, empty where it can."""
        if tree.positions[nodes].max() < self._limit:
            return ""
        return f"{self.label} is at the end of its context of {self._limit} tokens"

    @abstractmethod
    def best(self, tree: DraftTree, nodes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best next tokens of each node, best first, and their log-probs: [nodes, k] each."""

    @abstractmethod
    def judge(self, tree: DraftTree, nodes: np.ndarray, ahead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log-prob of each node's own token after its parent [nodes], and whether it could not be proposed [nodes].

        Where something has to be read for it, the nodes `ahead` are read along, as they will be grown next.
        """

    def distribution(self, tree: DraftTree, nodes: np.ndarray, sampler: Sampler) -> np.ndarray:
        """What tokens after each node are drawn from: [nodes, vocab of the target], 0 where it cannot propose.

        It is the drafter's own distribution, treated by `sampler` as the target's.
        """
        raise NotImplementedError(f"{self.label} answers from what was recorded, and draws nothing")

    def draw(self, tree: DraftTree, nodes: np.ndarray, k: int, sampler: Sampler, replacement: bool) -> list[Draws]:
        """Up to k draws after each node from its distribution; fewer where, without `replacement`, it has no more."""
        return sampler.draws(self.distribution(tree, nodes, sampler), k, replacement)

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        """Add the k best next tokens of every parent; all of them become candidates."""
        limit = self.limits(tree, parents)
        if limit:
            empty = np.zeros(0, np.int64)
            return Growth(empty, empty, empty, empty, final=True, note=limit)
        tokens, logprobs = self.best(tree, parents, k)
        before = tree.size
        scores = path_scores(tree.score[parents][:, None], logprobs)
        nodes = tree.add(np.repeat(parents, tokens.shape[1]), tokens.ravel(), scores.ravel(), self.id)
        nodes = nodes[nodes >= 0]
        return Growth(created=np.arange(before, tree.size), candidates=nodes, merged=nodes[nodes < before],
                      match=np.zeros(len(nodes), np.int64))
