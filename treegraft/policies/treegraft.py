"""TreeGraft: several drafters share one tree, and a scheduler says when the strong one is called (arXiv 2608.26112)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from treegraft.policies.base import Policy, Role, Round
from treegraft.policies.frontier import next_frontier, reselect
from treegraft.scheduler.features import FEATURES, features
from treegraft.settings import SettingError, setting
from treegraft.trace.records import Clock, Decide, Reselect
from treegraft.tree import ROOT


@dataclass(frozen=True)
class Drafting:
    """What a layer starts from: its number, the frontier, all nodes that calls have expanded, the layers that called.
    """

    layer: int = 1
    frontier: np.ndarray = field(default_factory=lambda: np.array([ROOT]))
    expanded: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    called: tuple[int, ...] = ()


@dataclass
class TreeGraft(Policy):
    """Grow one tree in `layers`: a layer is a call of the strong drafter, or a skip, where the weak one goes on.

    A call rescores the whole tree, chooses the frontier anew by the new scores, and expands it; it removes nothing. The
    best `budget` nodes of all go to the target. `schedule` says which layers call: `never`, `always`, `scheduler`, or
    their numbers, as in `1,3`.
    """

    name = "treegraft"
    decides = True
    roles = (Role("weak", "drafts the layers that skip", scores_tokens=None,
                  kinds=("lookup", "successors", "eagle3", "lm")),
             Role("strong", "is called to rescore the tree and to grow it"))
    reranks = True

    budget: int = setting(63, "Drafted nodes that the target verifies in a round.", low=1, high=1023)
    top_k: int = setting(10, "Nodes that a call expands, and children drafted for each.", low=1, high=64)
    layers: int = setting(5, "Layers drafted in a round, each a call or a skip.", low=1, high=16)
    lookback: int = setting(5, "Levels above the frontier that a call chooses from, too.", low=0, high=16)
    schedule: str = setting("scheduler", "Layers that call: never, always, scheduler, or numbers such as 1,3.")
    threshold: float = setting(0.0, "The scheduler calls if that saves more than this many milliseconds.",
                               low=-1e6, high=1e6)
    call_budget: int = setting(5, "Calls that the scheduler may make in a round; 0: as many as one verification takes.",
                               low=0, high=16)
    skip_expanded: bool = setting(False, "A call leaves out nodes that a call of this round has expanded already.")
    survive_empty: bool = setting(False, "A skip that leaves nothing to expand does not end the round.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._fixed = fixed_layers(self.schedule, self.layers)

    @property
    def capacity(self) -> int:
        return max(self.budget + 1, 1 + self.top_k + self.layers * self.top_k**2)

    @property
    def needs_clock(self) -> bool:
        return self.needs_scheduler

    @property
    def needs_scheduler(self) -> bool:
        return self.schedule == "scheduler"

    def draft(self, round: Round) -> None:
        drafting = Drafting()
        while self.goes_on(round, drafting):
            drafting = self.step(round, drafting)
        round.prune(self.budget)

    def goes_on(self, round: Round, drafting: Drafting) -> bool:
        """Whether another layer is drafted."""
        return drafting.layer <= self.layers and len(drafting.frontier) > 0 and round.tree.room > 0

    def step(self, round: Round, drafting: Drafting) -> Drafting:
        """Draft one layer; returns what the next one starts from."""
        layer, frontier, expanded, called = drafting.layer, drafting.frontier, drafting.expanded, drafting.called
        if self._decide(round, layer, frontier, called, expanded):
            frontier, expanded = self._call(round, layer, frontier, expanded)
            return Drafting(layer + 1, frontier, expanded, (*called, layer))
        return Drafting(layer + 1, self._skip(round, layer, frontier), expanded, called)

    def _skip(self, round: Round, layer: int, frontier: np.ndarray) -> np.ndarray:
        """The weak drafter grows the frontier as it is; returns the next one."""
        growth = round.expand(round.drafters[0], frontier, layer, self.top_k)
        after = next_frontier(round.tree, growth, layer, self.top_k)
        if self.survive_empty:
            return after if len(after) and not growth.final else frontier
        return after[:0] if growth.final else after

    def _call(self, round: Round, layer: int, frontier: np.ndarray,
              expanded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The strong drafter rescores the tree and grows a frontier chosen anew; returns the next one, and all nodes
        that calls have expanded."""
        tree, strong = round.tree, round.drafters[1]
        if not round.rescore(strong, layer, ahead=frontier):
            return frontier[:0], expanded
        chosen, pool = self._reselect(round, frontier, expanded)
        round.events.append(Reselect(layer=layer, pool=pool, before=frontier.tolist(), after=chosen.tolist()))
        if len(chosen) == 0:
            return chosen, expanded
        growth = round.expand(strong, chosen, layer, self.top_k)
        after = next_frontier(tree, growth, layer, self.top_k)
        return after[:0] if growth.final else after, np.union1d(expanded, chosen)

    def _reselect(self, round: Round, frontier: np.ndarray, expanded: np.ndarray) -> tuple[np.ndarray, int]:
        left_out = expanded if self.skip_expanded else expanded[:0]
        return reselect(round.tree, frontier, self.lookback, self.top_k, left_out)

    # --- the schedule ---

    def _decide(self, round: Round, layer: int, frontier: np.ndarray, called: Sequence[int],
                expanded: np.ndarray) -> bool:
        """Whether this layer calls."""
        constants = round.constants
        decision = Decide(layer=layer, rule=self.schedule, call=layer in self._fixed,
                          calls_left=self.layers - len(called))
        if constants.clock:
            seen = features(round.tree, frontier, self._reselect(round, frontier, expanded)[0], layer=layer,
                            layers=self.layers, called=called, prompt=constants.prompt, clock=constants.clock)
            decision.features = dict(zip(FEATURES, seen.tolist(), strict=True))
            decision.margin = constants.scheduler.margin(seen) if constants.scheduler else None
        if layer <= len(round.forced):
            decision.rule, decision.call = "forced", round.forced[layer - 1]
        elif self.needs_scheduler:
            decision.calls_left = self.calls_left(len(called), constants.clock)
            decision.threshold = self.threshold
            decision.call = self.wants(decision.margin, decision.calls_left)
        round.events.append(decision)
        return decision.call

    def wants(self, margin: float, calls_left: int) -> bool:
        """The scheduler's rule: call if that saves enough and calls are left."""
        return calls_left > 0 and margin > self.threshold

    def calls_left(self, called: int, clock: Clock) -> int:
        """How many more calls the scheduler may make in a round that has called `called` times."""
        return max(0, (self.call_budget or clock.target // max(1, clock.strong)) - called)


def fixed_layers(schedule: str, layers: int) -> frozenset[int]:
    """The layers that call whatever happens. Errors: `SettingError` for text that is no schedule."""
    if schedule in ("never", "scheduler"):
        return frozenset()
    if schedule == "always":
        return frozenset(range(1, layers + 1))
    listed = re.fullmatch(r"\d{1,3}(,\d{1,3})*", schedule)
    chosen = [int(number) for number in schedule.split(",")] if listed else [0]
    if not all(1 <= layer <= layers for layer in chosen):
        raise SettingError(f"schedule was {schedule!r}; allowed: never, always, scheduler, or layers from 1 to "
                           f"{layers} such as 1,3.")
    return frozenset(chosen)
