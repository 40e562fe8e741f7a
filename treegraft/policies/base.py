"""What the engine knows of a policy: it drafts one round, using drafters only through their base class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from treegraft.drafters.base import Drafter, Growth, ScoringDrafter
from treegraft.scheduler.network import Scheduler
from treegraft.settings import Configurable, SettingError
from treegraft.trace.records import Clock, CostCurve, Event, Expand, Prune, Rescore
from treegraft.tree import NEG_INF, ROOT, DraftTree, path_scores
from treegraft.verify import Draws

if TYPE_CHECKING:
    from treegraft.models.sampler import Sampler

MAX_NODES = 8192
"""Most nodes of one tree: bounds the memory of masks and caches."""


def as_scores(scores: np.ndarray) -> list[int | None]:
    """Scores as a trace writes them."""
    return [None if score <= NEG_INF else score for score in scores.tolist()]


@dataclass(frozen=True)
class Constants:
    """What a policy may know of the run beyond the round: the same in every round, and in a replay.

    `prompt` counts the prompt's tokens. `clock`, `scheduler` and the `costs` of forwards are there for policies that
    ask (`needs_clock`, `needs_scheduler`, `needs_costs`).
    """

    prompt: int = 0
    clock: Clock | None = None
    scheduler: Scheduler | None = None
    costs: Sequence[CostCurve] = ()


NO_CONSTANTS = Constants()


@dataclass
class Round:
    """One round while it is drafted: the tree, the drafters by role, and the events so far.

    `limit` is the most nodes that the target can still take near the end of its context. `forced` holds decisions that
    a probe takes instead of the policy, layer by layer. `sampler` is there where the target samples. After drafting,
    `kept` holds the nodes for the target, ascending, `draws` the children that were drawn at random, by their parent,
    and `note` why the nodes are fewer than the policy wanted.
    """

    tree: DraftTree
    drafters: Sequence[Drafter]
    limit: int
    constants: Constants = NO_CONSTANTS
    forced: Sequence[bool] = ()
    sampler: Sampler | None = None
    draws: dict[int, Draws] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    kept: np.ndarray = field(default_factory=lambda: np.array([ROOT]))
    note: str = ""

    def expand(self, drafter: Drafter, parents: np.ndarray, layer: int, k: int) -> Growth:
        """Let `drafter` grow the tree below `parents`; returns its `Growth`."""
        growth = drafter.grow(self.tree, parents, layer, k)
        self.grew(drafter, parents, layer, growth)
        return growth

    def grew(self, drafter: Drafter, parents: np.ndarray, layer: int, growth: Growth) -> None:
        """Write down what `drafter` did to the tree below `parents`."""
        tree = self.tree
        above = tree.parent[growth.created]
        grafted = growth.created[(above != ROOT) & (tree.origin[above] != drafter.id)]
        self.events.append(Expand(
            layer=layer, drafter=drafter.id, parents=parents.tolist(), nodes=growth.created.tolist(),
            scores=as_scores(tree.score[growth.created]), merged=growth.merged.tolist(),
            match=growth.span, source=growth.source, stopped=growth.stopped or None,
            raised=growth.raised, raised_scores=as_scores(tree.score[growth.raised]), grafted=grafted.tolist(),
            rank=growth.rank))
        self.note = self.note or growth.note

    def rescore(self, drafter: ScoringDrafter, layer: int, ahead: np.ndarray) -> bool:
        """Replace the scores of all nodes by those of `drafter`, whatever they were; the nodes `ahead` are grown next.

        False, and nothing changed, where the drafter cannot read the nodes that have children.
        """
        tree = self.tree
        nodes = np.arange(1, tree.size)
        limit = drafter.limits(tree, np.append(ROOT, tree.parent[nodes]))
        if limit:
            self.note = self.note or limit
            return False
        if len(nodes) == 0:
            return True
        readable = ahead[:0] if drafter.limits(tree, ahead) else ahead
        logprob, unreachable = drafter.judge(tree, nodes, readable)
        before = tree.score.copy()
        propagate(tree, np.append(0, logprob))
        changed = np.flatnonzero(tree.score != before)
        self.events.append(Rescore(
            layer=layer, drafter=drafter.id, nodes=changed.tolist(), before=as_scores(before[changed]),
            after=as_scores(tree.score[changed]), unreachable=nodes[unreachable].tolist()))
        return True

    def prune(self, budget: int) -> None:
        """Keep the best `budget` nodes (root not counted) for the target, fewer where its context ends."""
        budget = self.clip(budget, self.tree.size - 1)
        self.keep(self.tree.best(budget), budget, "score")

    def clip(self, budget: int, wanted: int) -> int:
        """The budget (root not counted), lowered, with a note, where the `wanted` nodes do not fit into the context."""
        if min(budget, wanted) <= self.limit:
            return budget
        clipped = f"budget {budget} clipped to {self.limit}: the context ends"
        self.note = f"{self.note}; {clipped}" if self.note else clipped
        return self.limit

    def keep(self, kept: np.ndarray, budget: int, rule: str) -> None:
        """Send these nodes to the target, as `rule` chose them: ascending, with the root and all their ancestors."""
        self.kept = kept
        self.events.append(Prune(budget=budget, rule=rule, kept=kept.tolist()))


def propagate(tree: DraftTree, logprob: np.ndarray) -> None:
    """Make every score the sum of the log-probs [nodes] along the path from the root, which has 0."""
    tree.score[ROOT] = 0
    for depth in range(1, int(tree.depth.max()) + 1):
        level = np.flatnonzero(tree.depth == depth)
        tree.score[level] = path_scores(tree.score[tree.parent[level]], logprob[level])


@dataclass(frozen=True)
class Role:
    """A place for a drafter in a policy."""

    name: str
    help: str
    scores_tokens: bool | None = True
    """Whether the drafter must give probabilities, or must not; None: either will do."""
    kinds: tuple[str, ...] = ()
    """The kinds of drafters that can fill it; empty: any."""

    def fits(self, kind: str, scores_tokens: bool) -> bool:
        """Whether a drafter of this kind, which gives probabilities or not, can fill the role."""
        return self.scores_tokens in (None, scores_tokens) and (not self.kinds or kind in self.kinds)


@dataclass
class Policy(Configurable, ABC):
    """The rule that grows one draft tree a round. Subclasses are dataclasses of settings.

    `roles` are the drafters that it takes, in order. `capacity` is the most nodes (root included) that its tree can
    have under its settings. `reranks` says that its tree grows whatever its `budget`, and the best nodes by score are
    kept of it; `decides` that its layers are calls or skips, the choices that exhaustive probes go through.
    """

    name: ClassVar[str]
    roles: ClassVar[tuple[Role, ...]] = ()
    reranks: ClassVar[bool] = False
    decides: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.capacity > MAX_NODES:
            chosen = ", ".join(f"{name} {value}" for name, value in self.settings.items())
            raise SettingError(f"{self.name} with {chosen} can draft {self.capacity - 1} nodes in a round; at most "
                               f"{MAX_NODES - 1} are allowed. Lower its width or its depth.")

    @property
    @abstractmethod
    def capacity(self) -> int: ...

    @property
    def drafts(self) -> str:
        """How the children of a node come about, one of `verify.DRAFTINGS`: decides which acceptance rules fit."""
        return "best"

    @property
    def needs_clock(self) -> bool:
        """Whether it decides by what a forward costs."""
        return False

    @property
    def needs_costs(self) -> bool:
        """Whether it decides by the measured times of forwards over any number of tokens."""
        return False

    @property
    def needs_scheduler(self) -> bool:
        """Whether a scheduler decides for it."""
        return False

    @abstractmethod
    def draft(self, round: Round) -> None:
        """Grow `round.tree` and choose `round.kept`."""

    # --- for replays ---

    def variants(self) -> Iterable[Policy]:
        """Whose questions to the drafters a dense recording holds the answers to."""
        return (self,)

    @property
    def ungated(self) -> Policy:
        """The same without thresholds on what was drafted: its tree tells what they decide."""
        return self

    def settled(self, tree: DraftTree) -> Policy:
        """What this policy comes to where `ungated` grows `tree`, without regard to thresholds that decide alike."""
        return self


def highest(tree: DraftTree, nodes: np.ndarray, k: int) -> np.ndarray:
    """The k best of `nodes` by (score, older), best first."""
    return nodes[np.lexsort((nodes, -tree.score[nodes]))[:k]]
