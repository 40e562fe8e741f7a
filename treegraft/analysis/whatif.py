"""What-if: the live policy code, run again along a known text with other settings (exact at temperature 0).

The drafters answer from the trace's probes, and what they were never asked they do not know (`NotRecorded`). Accepted
lengths, rounds, nodes and calls are exact relative to the recorded text; times are estimated from the measured curves.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treegraft.analysis.costs import microseconds
from treegraft.analysis.known import begin, output_logprobs
from treegraft.analysis.recorded import NotRecorded, RecordedDrafter, caught_up
from treegraft.drafters import drafter_class
from treegraft.drafters.base import Committed, Drafter
from treegraft.policies import POLICIES
from treegraft.policies.base import Constants, Policy, Round
from treegraft.scheduler.files import restore
from treegraft.settings import SettingError
from treegraft.trace.records import TARGET, Decide
from treegraft.trace.runs import Run
from treegraft.tree import DraftTree

SELECTION = {"budget", "threshold", "call_budget", "schedule"}
"""Settings that choose among grown trees, not how they grow once the calls are chosen."""


@dataclass(frozen=True)
class Grown:
    """A tree as a policy grew it at one position. `decisions` are those on the way; `passes` the forwards of each
    drafter as numbers of nodes, `read` the nodes that it read."""

    tree: DraftTree
    decisions: tuple[Decide, ...]
    passes: Mapping[int, Sequence[int]]
    read: Mapping[int, set[int]]
    note: str

    @property
    def calls(self) -> tuple[bool, ...]:
        return tuple(decision.call for decision in self.decisions)


@dataclass(frozen=True)
class ReplayedRound:
    """A round of a replay. `context` counts the tokens up to its root; `path` are the accepted nodes within the text,
    `nodes` counts the drafted nodes that were verified. `forwards` are (model, tokens); `microseconds` is an estimate,
    None without cost curves."""

    context: int
    accepted: int
    taken: int
    nodes: int
    kept: np.ndarray = field(repr=False)
    grown: Grown = field(repr=False)
    forwards: tuple[tuple[int, int], ...]
    microseconds: float | None


@dataclass(frozen=True)
class Replay:
    """A run under other settings. What is counted is exact relative to the recorded text; times are estimates."""

    policy: Policy
    rounds: list[ReplayedRound]
    tokens: int

    @property
    def accepted(self) -> int:
        return sum(round.accepted for round in self.rounds)

    @property
    def tau(self) -> float:
        """Mean acceptance length, the bonus counted."""
        return 1 + self.accepted / len(self.rounds)

    @property
    def nodes(self) -> int:
        return sum(round.nodes for round in self.rounds)

    @property
    def calls(self) -> int:
        """Layers that called the strong drafter."""
        return sum(sum(round.grown.calls) for round in self.rounds)

    @property
    def milliseconds(self) -> float | None:
        """Estimated time of all rounds."""
        times = [round.microseconds for round in self.rounds]
        return None if None in times else sum(times) / 1000

    @property
    def tokens_per_second(self) -> float | None:
        """Estimated, the reading of the prompt left out."""
        return (self.tokens - 1) * 1000 / self.milliseconds if self.milliseconds else None


class WhatIf:
    """Replays one run. `policy` is the recorded one; keep the object: grown trees are remembered.

    Errors: `NotRecorded` for a run whose drafters cannot be replayed.
    """

    def __init__(self, run: Run) -> None:
        header = run.header
        self.run, self.output, self.prompt = run, run.output, header.prompt.tokens
        self.policy = policy_of(run)
        self.constants = Constants(len(self.prompt), header.clock,
                                   restore(header.scheduler) if header.scheduler else None)
        self.curves = {curve.model: curve for curve in header.costs}
        self.host = host_time(run)
        self._logprobs = output_logprobs(run)
        self._grown: dict[tuple, Grown] = {}
        self._restart()

    def _restart(self) -> None:
        """New drafters, at the first position."""
        header = self.run.header
        self.drafters = [self._drafter(header.drafters[number]) for number in header.policy.drafters]
        begin(self.drafters, self.run, {})
        self._place = 0

    def _drafter(self, info: Any) -> Drafter:
        if info.state != "context":
            raise NotRecorded(f"{info.name} proposes by what earlier rounds verified, so other rounds cannot be "
                              "replayed exactly")
        kind = drafter_class(info.kind) if info.kind == "lookup" else None
        if kind is None:
            return RecordedDrafter(info, self.run.probes, self.run.header.decoding.max_context)
        drafter = kind(**info.settings)
        drafter.id = info.id
        return drafter

    # --- one position ---

    def grow(self, place: int, policy: Policy, forced: Sequence[bool] = ()) -> Grown:
        """The tree at output position `place`, by live policy code; see `Round.forced`."""
        key = (place, *forced_key(policy, forced))
        if key not in self._grown:
            self._grown[key] = self._grow(place, policy, forced)
        return self._grown[key]

    def _grow(self, place: int, policy: Policy, forced: Sequence[bool]) -> Grown:
        self._turn_to(place)
        root, context = self.output[place], len(self.prompt) + place + 1
        recorded = [drafter for drafter in self.drafters if isinstance(drafter, RecordedDrafter)]
        for drafter in recorded:
            drafter.open(context)
        round = Round(DraftTree(root, context, policy.capacity), self.drafters,
                      self.run.header.decoding.max_context - context, self.constants, forced)
        policy.draft(round)
        return Grown(tree=round.tree, decisions=tuple(one for one in round.events if isinstance(one, Decide)),
                     passes={drafter.id: drafter.passes for drafter in recorded},
                     read={drafter.id: drafter.read for drafter in recorded}, note=round.note)

    def _turn_to(self, place: int) -> None:
        """Lead the drafters to output position `place`."""
        if place < self._place:
            self._restart()
        start, self._place = self._place, place
        if place > start:
            tree = DraftTree(self.output[start], len(self.prompt) + start + 1, 1)
            committed = Committed(np.zeros(0, np.int64), self.output[start + 1: place + 1],
                                  logprobs=self._logprobs[start:place])
            for drafter in self.drafters:
                drafter.commit(tree, committed)

    def select(self, place: int, grown: Grown, budget: int) -> np.ndarray:
        """The nodes of a grown tree that go to the target."""
        context = len(self.prompt) + place + 1
        round = Round(grown.tree, (), self.run.header.decoding.max_context - context)
        round.prune(budget)
        return round.kept

    def follow(self, place: int, tree: DraftTree, kept: np.ndarray) -> list[int]:
        """The verified nodes that the known text goes through behind output position `place`."""
        allowed, path, node = set(kept.tolist()), [], 0
        for token in self.output[place + 1:]:
            node = tree.child(node, token)
            if node not in allowed:
                break
            path.append(node)
        return path

    # --- a whole run ---

    def replay(self, policy: Policy | None = None) -> Replay:
        """The run under `policy` (the recorded one with other settings). Errors: `NotRecorded`."""
        policy = policy or self.policy
        rounds, place = [], 0
        cached = {drafter.id: self._first_cached(drafter) for drafter in self.drafters
                  if isinstance(drafter, RecordedDrafter)}
        while place < len(self.output) - 1:
            grown = self._decided(place, policy)
            kept = self.select(place, grown, budget_of(policy, grown))
            path = self.follow(place, grown.tree, kept)
            rounds.append(self._round(place, grown, kept, path, cached))
            place += rounds[-1].taken
        return Replay(policy, rounds, len(self.output))

    def _decided(self, place: int, policy: Policy) -> Grown:
        """The tree that the policy's own schedule grows."""
        key = (place, *own_key(policy))
        if key not in self._grown:
            self._grown[key] = self._grow(place, policy, ())
        return self._grown[key]

    def _round(self, place: int, grown: Grown, kept: np.ndarray, path: list[int],
               cached: dict[int, int]) -> ReplayedRound:
        context, left = len(self.prompt) + place + 1, len(self.output) - 1 - place
        forwards = []
        for drafter in self.drafters:
            if drafter.id in cached:
                behind, cached[drafter.id] = caught_up(
                    drafter.kind, cached[drafter.id], context, grown.read[drafter.id], path)
                passes = list(grown.passes[drafter.id])
                passes[:1] = [one + behind for one in passes[:1]]
                forwards += [(drafter.id, tokens) for tokens in passes]
        forwards.append((TARGET, len(kept)))
        return ReplayedRound(context=context, accepted=len(path), taken=min(len(path) + 1, left), nodes=len(kept) - 1,
                             kept=kept, grown=grown, forwards=tuple(forwards),
                             microseconds=self.estimate(forwards))

    def _first_cached(self, drafter: RecordedDrafter) -> int:
        """Tokens that a drafter's cache holds once it has read the prompt."""
        return len(self.prompt) - (drafter.kind == "eagle3")

    def estimate(self, forwards: Iterable[tuple[int, int]]) -> float | None:
        """Microseconds of a round with these forwards, from the measured curves; None where one is missing."""
        forwards = list(forwards)
        if not {model for model, _ in forwards} <= self.curves.keys():
            return None
        return self.host + sum(microseconds(self.curves[model], tokens) for model, tokens in forwards)


def policy_of(run: Run) -> Policy:
    """The policy that recorded the run. Errors: `NotRecorded` for one that this version does not have."""
    info = run.header.policy
    if info.name not in POLICIES:
        raise NotRecorded(f"the policy {info.name!r} is not known to this version of treegraft")
    try:
        return POLICIES[info.name](**info.settings)
    except (TypeError, SettingError) as error:
        raise NotRecorded(f"the settings of {info.name} are not those of this version of treegraft: {error}") from None


def change(policy: Policy, **settings: Any) -> Policy:
    """The policy with other settings. Errors: `SettingError`."""
    type(policy).check_names(settings)
    return dataclasses.replace(policy, **settings)


def budget_of(policy: Policy, grown: Grown) -> int:
    """The most drafted nodes that the policy sends to the target: its budget, or else all it grows."""
    return getattr(policy, "budget", grown.tree.size - 1)


def own_key(policy: Policy) -> tuple:
    """What a tree depends on where the policy decides for itself: everything but the budget of the selection."""
    settings = {name: value for name, value in policy.settings.items() if name != "budget"}
    return (policy.name, policy.capacity, *settings.items())


def forced_key(policy: Policy, forced: Sequence[bool]) -> tuple:
    """What a tree depends on where the choices are forced."""
    settings = {name: value for name, value in policy.settings.items() if name not in SELECTION}
    return (policy.name, policy.capacity, *settings.items(), tuple(forced))


def host_time(run: Run) -> float:
    """Microseconds of a round outside model forwards, the median of the run."""
    spent = [round.record.times.get("total", 0) - sum(one.microseconds for one in round.record.forwards)
             for round in run.rounds]
    return max(0.0, statistics.median(spent)) if spent else 0.0
