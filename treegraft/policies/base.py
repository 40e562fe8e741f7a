"""What the engine knows of a policy: it drafts one round, using drafters only through their base class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from treegraft.drafters.base import Drafter, Growth
from treegraft.settings import Configurable, SettingError
from treegraft.trace.records import Event, Expand, Prune
from treegraft.tree import NEG_INF, ROOT, DraftTree

MAX_NODES = 8192
"""Most nodes of one tree: bounds the memory of masks and caches."""


def as_scores(scores: np.ndarray) -> list[int | None]:
    """Scores as a trace writes them."""
    return [None if score <= NEG_INF else score for score in scores.tolist()]


@dataclass
class Round:
    """One round while it is drafted: the tree, the drafters by role, and the events so far.

    `limit` is the most nodes that the target can still take near the end of its context. After drafting, `kept` holds
    the nodes for the target, ascending, and `note` why they are fewer than the policy wanted.
    """

    tree: DraftTree
    drafters: Sequence[Drafter]
    limit: int
    events: list[Event] = field(default_factory=list)
    kept: np.ndarray = field(default_factory=lambda: np.array([ROOT]))
    note: str = ""

    def expand(self, drafter: Drafter, parents: np.ndarray, layer: int, k: int) -> Growth:
        """Let `drafter` grow the tree below `parents`; returns its `Growth`."""
        growth = drafter.grow(self.tree, parents, layer, k)
        self.events.append(Expand(
            layer=layer, drafter=drafter.id, parents=parents.tolist(), nodes=growth.created.tolist(),
            scores=as_scores(self.tree.score[growth.created]), merged=growth.merged.tolist(),
            match=growth.span, source=growth.source, stopped=growth.stopped or None,
            raised=growth.raised, raised_scores=as_scores(self.tree.score[growth.raised])))
        self.note = self.note or growth.note
        return growth

    def prune(self, budget: int) -> None:
        """Keep the best `budget` nodes (root not counted) for the target, fewer where its context ends."""
        if min(budget, self.tree.size - 1) > self.limit:
            clipped = f"budget {budget} clipped to {self.limit}: the context ends"
            self.note = f"{self.note}; {clipped}" if self.note else clipped
            budget = self.limit
        self.kept = self.tree.best(budget)
        self.events.append(Prune(budget=budget, rule="score", kept=self.kept.tolist()))


@dataclass(frozen=True)
class Role:
    """A place for a drafter in a policy."""

    name: str
    help: str
    scores_tokens: bool = True
    """Whether the drafter must give probabilities."""


@dataclass
class Policy(Configurable, ABC):
    """The rule that grows one draft tree a round. Subclasses are dataclasses of settings.

    `roles` are the drafters that it takes, in order. `capacity` is the most nodes (root included) that its tree can
    have under its settings.
    """

    name: ClassVar[str]
    roles: ClassVar[tuple[Role, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.capacity > MAX_NODES:
            chosen = ", ".join(f"{name} {value}" for name, value in self.settings.items())
            raise SettingError(f"{self.name} with {chosen} can draft {self.capacity - 1} nodes in a round; at most "
                               f"{MAX_NODES - 1} are allowed. Lower its width or its depth.")

    @property
    @abstractmethod
    def capacity(self) -> int: ...

    @abstractmethod
    def draft(self, round: Round) -> None:
        """Grow `round.tree` and choose `round.kept`."""


def highest(tree: DraftTree, nodes: np.ndarray, k: int) -> np.ndarray:
    """The k best of `nodes` by (score, older), best first."""
    return nodes[np.lexsort((nodes, -tree.score[nodes]))[:k]]
