"""What-if: the live policy code, run again along a known text with other settings (exact at temperature 0).

The drafters answer from the trace's probes, and what they were never asked they do not know (`NotRecorded`). Accepted
lengths, rounds, nodes and calls are exact relative to the recorded text, unless its models ran in low precision
(`WhatIf.inexact`); times are estimated from the measured curves.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from treegraft.analysis.costs import microseconds
from treegraft.analysis.known import begin, output_logprobs, output_rivals
from treegraft.analysis.recorded import (
    NotRecorded,
    RecordedBlock,
    RecordedDrafter,
    RecordedRows,
    RecordedTree,
    caught_up,
)
from treegraft.drafters import FROM_TEXT, RANKING, RETRIEVING, drafter_class
from treegraft.drafters.base import Committed, Drafter
from treegraft.policies import POLICIES
from treegraft.policies.base import Constants, Policy, Round
from treegraft.policies.graft import Graft
from treegraft.policies.treegraft import Drafting, TreeGraft
from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.files import SchedulerError, restore
from treegraft.scheduler.network import Scheduler
from treegraft.settings import SettingError
from treegraft.trace.records import TARGET, Decide, DrafterInfo
from treegraft.trace.replay import ending
from treegraft.trace.runs import Run
from treegraft.tree import ROOT, DraftTree

LOW_PRECISION = ("bfloat16", "float16")

Origin = Literal["measured", "replayed exactly", "estimated"]
"""Where a number comes from."""


@dataclass(frozen=True)
class Grown:
    """A tree as a policy grew it at one position, and what it `kept`. `decisions` are those on the way; `passes` the
    forwards of each drafter as numbers of nodes, `read` the nodes that it read."""

    tree: DraftTree
    kept: np.ndarray
    decisions: tuple[Decide, ...]
    passes: Mapping[int, Sequence[int]]
    read: Mapping[int, set[int]]

    @property
    def calls(self) -> tuple[bool, ...]:
        return tuple(decision.call for decision in self.decisions)


@dataclass(frozen=True)
class Verified:
    """What the target makes of a grown tree: the `kept` nodes, and the `path` that the known text takes through them,
    which adds `taken` tokens to the text."""

    kept: np.ndarray
    path: tuple[int, ...]
    taken: int


@dataclass(frozen=True)
class ReplayedRound:
    """A round of a replay. `context` counts the tokens up to its root; `forwards` are (model, tokens); `microseconds`
    is an estimate, None without cost curves."""

    context: int
    grown: Grown = field(repr=False)
    verified: Verified = field(repr=False)
    forwards: tuple[tuple[int, int], ...]
    microseconds: float | None

    @property
    def accepted(self) -> int:
        """Accepted draft tokens within the text, the bonus not counted."""
        return len(self.verified.path)

    @property
    def nodes(self) -> int:
        """Drafted nodes that the target verified."""
        return len(self.verified.kept) - 1


@dataclass(frozen=True)
class Replay:
    """A run under other settings. What is counted is exact relative to the recorded text; times are estimates."""

    policy: Policy
    rounds: list[ReplayedRound]
    tokens: int

    @property
    def tau(self) -> float:
        """Mean acceptance length, the bonus counted."""
        return 1 + sum(round.accepted for round in self.rounds) / max(1, len(self.rounds))

    @property
    def nodes(self) -> int:
        return sum(round.nodes for round in self.rounds)

    @property
    def calls(self) -> int:
        """Layers that called the strong drafter."""
        return sum(sum(round.grown.calls) for round in self.rounds)

    @property
    def draft_forwards(self) -> int:
        return sum(model != TARGET for round in self.rounds for model, _ in round.forwards)

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
    """Replays one run. `policy` is the recorded one. Keep the object: grown trees are remembered.

    Errors: `NotRecorded` for a run whose drafters cannot be replayed.
    """

    def __init__(self, run: Run) -> None:
        header = run.header
        refuse_inexact(run)
        self.run, self.output, self.prompt = run, run.output, header.prompt.tokens
        self.policy = policy_of(run)
        self.use(scheduler_of(run))
        self.curves = {curve.model: curve for curve in header.costs}
        self.host = host_time(run)
        self._logprobs = output_logprobs(run)
        self._grown: dict[tuple, Grown] = {}
        self._stopped: dict[tuple, tuple[Round, tuple[str, int]]] = {}
        self._verified: dict[tuple, Verified] = {}
        self._cost: dict[tuple[int, int], int] = {}
        self.drafters = drafters_of(run, self.policy)
        self._rivals = output_rivals(run, self.drafters)
        self._restart()

    @cached_property
    def inexact(self) -> str:
        """Why accepted lengths, rounds, nodes and calls of replays are estimates, in a sentence or two; empty where
        they are exact. Errors: `NotRecorded`."""
        return why_inexact(self.run, self.drafters, self.replay())

    @property
    def counted(self) -> Origin:
        """What such numbers are."""
        return "estimated" if self.inexact else "replayed exactly"

    def use(self, scheduler: Scheduler | None) -> None:
        """Let this scheduler decide, instead of the recorded one."""
        self.constants = Constants(len(self.prompt), self.run.header.clock, scheduler, self.run.header.costs)
        self._margins: dict[tuple, float] = {}

    def _restart(self) -> None:
        """Lead the drafters back to the first position."""
        begin(self.drafters, self.run, {})
        self._place = 0

    # --- one position ---

    def grow(self, place: int, policy: Policy, forced: Sequence[bool] = ()) -> Grown:
        """The tree at output position `place`, by live policy code; `forced` choices as in `Round.forced`.

        Errors: `NotRecorded`.
        """
        return self._known(place, self._settled(place, policy), forced)

    def _known(self, place: int, policy: Policy, forced: Sequence[bool] = ()) -> Grown:
        key = (place, *growth_key(policy, forced))
        if key not in self._grown:
            self._grown[key] = self._grow(place, policy, forced)
        return self._grown[key]

    def _settled(self, place: int, policy: Policy) -> Policy:
        """What the policy's thresholds come to at an output position, so that a tree is grown once for all of them."""
        ungated = policy.ungated
        if ungated == policy:
            return policy
        drafted = self._drafted(place, ungated)[0] if isinstance(ungated, Graft) else self._known(place, ungated)
        return policy.settled(drafted.tree)

    def grow_every(self, place: int, policy: TreeGraft) -> list[tuple[bool, ...]]:
        """Grow the tree at output position `place` under every way to choose calls and skips, as far as they differ,
        for `grow` to remember; returns the choices, skips first. What ways have in common is drafted once.

        Errors: `NotRecorded`.
        """
        found, pending = [], [(self._begin(place, policy), Drafting())]
        while pending:
            round, drafting = pending.pop()
            if policy.goes_on(round, drafting):
                called = fork(round)
                for branch, choice in ((called, True), (round, False)):
                    branch.forced = (*branch.forced, choice)
                    pending.append((branch, policy.step(branch, drafting)))
            else:
                round.prune(policy.budget)
                choices = (*round.forced, *[False] * (policy.layers - len(round.forced)))
                self._grown[place, *growth_key(policy, choices)] = grown_by(round)
                found.append(choices)
        return found

    def draft(self, place: int, policy: Policy, forced: Sequence[bool] = ()) -> Round:
        """The round that the policy drafts at output position `place`, with its events. Errors: `NotRecorded`."""
        round = self._begin(place, policy, forced)
        policy.draft(round)
        return round

    def _grow(self, place: int, policy: Policy, forced: Sequence[bool]) -> Grown:
        return grown_by(self._graft(place, policy) if isinstance(policy, Graft) else self.draft(place, policy, forced))

    def _graft(self, place: int, policy: Graft) -> Round:
        """The round that `Graft` drafts. Its budget matters only once drafting has stopped, so that what was drafted
        for one serves all."""
        drafted, (stage, layer) = self._drafted(place, policy)
        if not stage:  # nothing is added to the tree
            round = dataclasses.replace(drafted, events=[*drafted.events])
        else:
            round = fork(drafted)
            round.tree.capacity = policy.capacity
            self._turn_to(place)
        policy.finish(round, stage, layer)
        return round

    def _drafted(self, place: int, policy: Graft) -> tuple[Round, tuple[str, int]]:
        """A round as it is when drafting has stopped, and the stage and the layer where it did."""
        key = (place, *policy.drafting)
        if key not in self._stopped:
            round = self._begin(place, policy)
            stopped = policy.grow(round)
            kept = fork(round)  # the drafters go on to other positions
            kept.tree.close()
            self._stopped[key] = kept, stopped
        return self._stopped[key]

    def _begin(self, place: int, policy: Policy, forced: Sequence[bool] = ()) -> Round:
        """A round at output position `place` before anything is drafted."""
        self._turn_to(place)
        root, context = self.output[place], len(self.prompt) + place + 1
        return Round(DraftTree(root, context, policy.capacity), self.drafters, self._room(place), self.constants,
                     forced)

    def _turn_to(self, place: int) -> None:
        """Lead the drafters to output position `place`, before anything is drafted there."""
        self._commit_up_to(place)
        for drafter in self.drafters:
            if isinstance(drafter, (RecordedDrafter, RecordedRows, RecordedBlock, RecordedTree)):
                drafter.open(len(self.prompt) + place + 1)

    def _commit_up_to(self, place: int) -> None:
        if place < self._place:
            self._restart()
        start, self._place = self._place, place
        if place > start:
            tree = DraftTree(self.output[start], len(self.prompt) + start + 1, 1)
            committed = Committed(np.zeros(0, np.int64), self.output[start + 1: place + 1],
                                  logprobs=self._logprobs[start:place],
                                  rivals=self._rivals[place - 1: place].ravel())
            for drafter in self.drafters:
                drafter.commit(tree, committed)

    def _room(self, place: int) -> int:
        """The most drafted nodes that the target can take behind output position `place`."""
        return self.run.header.decoding.max_context - len(self.prompt) - place - 1

    def choose(self, place: int, policy: Policy) -> tuple[bool, ...]:
        """The calls and skips that the policy itself decides on at an output position; empty where it has no choice.

        Errors: `NotRecorded`.
        """
        if not policy.needs_scheduler:
            return ()
        try:
            return self._choose(place, policy)
        except NotRecorded:
            if not (self.constants.scheduler and self.constants.clock):
                raise
        # A dense trace holds what the scheduler chose, but not the skips that are tried before it.
        chosen = self._grow(place, policy, ()).calls
        return chosen + (False,) * (policy.layers - len(chosen))

    def _choose(self, place: int, policy: Policy) -> tuple[bool, ...]:
        """The scheduler's choices, layer by layer: its margins do not depend on its threshold, so trees grown for one
        threshold serve all others."""
        choices: tuple[bool, ...] = (False,) * policy.layers
        for layer in range(policy.layers):
            decisions = self.grow(place, policy, choices).decisions
            if layer == len(decisions):
                break
            margin = self._margin(place, policy, choices[:layer], decisions[layer])
            if policy.wants(margin, policy.calls_left(sum(choices[:layer]), self.constants.clock)):
                choices = (*choices[:layer], True, *choices[layer + 1:])
        return choices

    def _margin(self, place: int, policy: Policy, before: Sequence[bool], decision: Decide) -> float:
        """The scheduler's margin for a decision. Errors: `NotRecorded` without a scheduler or its features."""
        key = (place, *growth_key(policy, before or (False,)), len(before))
        if key not in self._margins:
            if not (self.constants.scheduler and decision.features):
                raise NotRecorded("the trace has no scheduler or none of what it looks at; record it with one")
            seen = np.array([decision.features[name] for name in FEATURES])
            self._margins[key] = self.constants.scheduler.margin(seen)
        return self._margins[key]

    def verify(self, place: int, policy: Policy, forced: Sequence[bool] = ()) -> Verified:
        """What the target makes of the tree of `grow`, under the policy's budget."""
        policy = self._settled(place, policy)
        grown = self._known(place, policy, forced)
        key = (place, *growth_key(policy, forced), policy.budget if policy.reranks else None)
        if key not in self._verified:
            kept = grown.kept
            if policy.reranks:
                round = Round(grown.tree, (), self._room(place))
                round.prune(policy.budget)
                kept = round.kept
            path = self.follow(place, grown.tree, kept)
            left = len(self.output) - 1 - place
            self._verified[key] = Verified(kept, path, min(len(path) + 1, left))
        return self._verified[key]

    def follow(self, place: int, tree: DraftTree, kept: np.ndarray | None = None,
               text: Sequence[int] | None = None) -> tuple[int, ...]:
        """The nodes of a tree, or those `kept` of it, that the known text (by default the output) goes through behind
        output position `place`."""
        text, path, node = text or self.output, [], ROOT
        for ahead in range(place + 1, len(text)):
            node = tree.child(node, text[ahead])
            if node < 0 or not (kept is None or is_in(kept, node)):
                break
            path.append(node)
        return tuple(path)

    # --- a whole run ---

    def replay(self, policy: Policy | None = None,
               choose: Callable[[int], Sequence[bool]] | None = None) -> Replay:
        """The run under `policy` (by default the recorded one), `choose` making its choices at every position.

        Errors: `NotRecorded`.
        """
        policy = policy or self.policy
        rounds, place = [], 0
        cached = {drafter.id: len(self.prompt) - (drafter.kind == "eagle3") for drafter in self.drafters
                  if isinstance(drafter, (RecordedDrafter, RecordedBlock))}
        while place < len(self.output) - 1:
            forced = choose(place) if choose else self.choose(place, policy)
            grown, verified = self.grow(place, policy, forced), self.verify(place, policy, forced)
            context = len(self.prompt) + place + 1
            forwards = self._forwards(context, grown, verified, cached)
            rounds.append(ReplayedRound(context, grown, verified, forwards, self.estimate(forwards)))
            place += verified.taken
        return Replay(policy, rounds, len(self.output))

    def _forwards(self, context: int, grown: Grown, verified: Verified,
                  cached: dict[int, int]) -> tuple[tuple[int, int], ...]:
        """The forwards of a round; `cached` counts the committed tokens in each drafter's cache, and is brought up to
        date."""
        forwards = []
        for drafter in self.drafters:
            if drafter.id in cached:
                behind, cached[drafter.id] = caught_up(
                    drafter.kind, cached[drafter.id], context, grown.read[drafter.id], verified.path)
                first, *rest = grown.passes[drafter.id] or [0]
                forwards += [(drafter.id, tokens) for tokens in (first + behind, *rest) if tokens]
        return (*forwards, (TARGET, len(verified.kept)))

    def estimate(self, forwards: Iterable[tuple[int, int]]) -> float | None:
        """Microseconds of a round with these forwards, from the measured curves; None where one is missing."""
        total = self.host
        for model, tokens in forwards:
            if model not in self.curves:
                return None
            if (model, tokens) not in self._cost:
                self._cost[model, tokens] = microseconds(self.curves[model], tokens)
            total += self._cost[model, tokens]
        return total


def fork(round: Round) -> Round:
    """A round that goes on from here on its own."""
    drafters = [one.fork() if isinstance(one, RecordedDrafter) else one for one in round.drafters]
    return dataclasses.replace(round, tree=round.tree.copy(), drafters=drafters, events=[*round.events])


def grown_by(round: Round) -> Grown:
    """The tree of a round that has been drafted."""
    recorded = [drafter for drafter in round.drafters if isinstance(drafter, (RecordedDrafter, RecordedBlock))]
    round.tree.close()
    return Grown(tree=round.tree, kept=round.kept,
                 decisions=tuple(one for one in round.events if isinstance(one, Decide)),
                 passes={drafter.id: drafter.passes for drafter in recorded},
                 read={drafter.id: drafter.read for drafter in recorded})


def why_inexact(run: Run, drafters: Iterable[Drafter], replayed: Replay) -> str:
    """Why replays of a run differ from what would have happened, judged by one under its own settings.

    In low precision the last digits of a drafter's scores depend on how many tokens it reads at once, and probes read
    others than rounds do: near ties fall the other way."""
    dtype = run.header.target.dtype
    rounded = dtype in LOW_PRECISION and any(isinstance(one, (RecordedDrafter, RecordedBlock)) for one in drafters)
    recorded = [(record.context, len(ending(record)[0].order) - 1) for record in run.records]
    rounds = [(round.context, round.nodes) for round in replayed.rounds]
    if rounds == recorded and not rounded:
        return ""
    gap = "Its own settings, replayed, give the recorded rounds." if rounds == recorded else (
        f"The recording took {len(recorded)} rounds with {sum(nodes for _, nodes in recorded)} verified nodes; its own "
        f"settings, replayed, take {len(rounds)} with {replayed.nodes}.")
    if rounded:
        return (f"Replays are estimates here: in {dtype} a drafter's scores depend a little on how many tokens it "
                f"reads at once. {gap} Recorded with --dtype float32, replays are exact.")
    return f"Replays are estimates here: the trace's drafters do not lead to the rounds that it holds. {gap}"


def is_in(kept: np.ndarray, node: int) -> bool:
    """Whether an ascending array holds a number."""
    place = kept.searchsorted(node)
    return place < len(kept) and kept[place] == node


def policy_of(run: Run) -> Policy:
    """The policy that recorded the run. Errors: `NotRecorded` for one that this version does not have."""
    info = run.header.policy
    if info.name not in POLICIES:
        raise NotRecorded(f"the policy {info.name!r} is not known to this version of treegraft")
    try:
        return POLICIES[info.name](**info.settings)
    except (TypeError, SettingError) as error:
        raise NotRecorded(f"the settings of {info.name} are not those of this version of treegraft: {error}") from None


def refuse_inexact(run: Run) -> None:
    """Errors: `NotRecorded` for a run whose text is not what any replay of it would write."""
    header = run.header
    if run.prefill is None:
        raise NotRecorded("the trace has no prefill: its recording ended before the first token")
    if header.decoding.temperature > 0:
        raise NotRecorded(f"the text was sampled at temperature {header.decoding.temperature}; replays are exact at "
                          "temperature 0 only")
    if header.decoding.max_context < len(header.prompt.tokens) + len(run.output):
        raise NotRecorded(f"the header says that {header.decoding.max_context} tokens of context were there, fewer "
                          "than the text has")


def scheduler_of(run: Run) -> Scheduler | None:
    """The scheduler that the run was recorded with. Errors: `NotRecorded` for one that cannot be used."""
    try:
        return restore(run.header.scheduler) if run.header.scheduler else None
    except SchedulerError as error:
        raise NotRecorded(f"the trace's scheduler cannot be used: {error}") from None


def drafters_of(run: Run, policy: Policy) -> list[Drafter]:
    """Stand-ins for the drafters of the run, in the order of the policy's roles. Errors: `NotRecorded`."""
    known = {info.id: info for info in run.header.drafters}
    infos = [known[number] for number in run.header.policy.drafters]
    found = [drafter_of(info, run) for info in infos]
    if len(found) != len(policy.roles):
        raise NotRecorded(f"{policy.name} takes {len(policy.roles)} drafter(s); the trace names {len(found)}")
    for role, drafter, info in zip(policy.roles, found, infos, strict=True):
        if not role.fits(info.kind, drafter.scores_tokens):
            raise NotRecorded(f"{info.name} cannot fill the role {role.name!r} of {policy.name}, which {role.help}")
    return found


def drafter_of(info: DrafterInfo, run: Run) -> Drafter:
    """The drafter itself where its settings and the known text are all of it, else one that answers from the probes.

    Errors: `NotRecorded`.
    """
    if info.state != "context":
        advice = f"; record with --set {info.name}.learn=committed" if "learn" in info.settings else ""
        raise NotRecorded(f"{info.name} proposes by what earlier rounds verified, so other rounds cannot be "
                          f"replayed exactly{advice}")
    if info.kind in RANKING:
        return RecordedRows(info, run.probes)
    if info.kind == "block":
        return RecordedBlock(info, run.probes)
    if info.kind in RETRIEVING:
        return RecordedTree(info, run.probes, policy_of(run).capacity)
    if info.kind not in FROM_TEXT:
        return RecordedDrafter(info, run.probes, run.header.decoding.max_context)
    try:
        drafter = drafter_class(info.kind)(**info.settings)
    except (TypeError, SettingError) as error:
        raise NotRecorded(f"the settings of {info.name} are not those of this version of treegraft: {error}") from None
    drafter.id = info.id
    return drafter


def change(policy: Policy, **settings: Any) -> Policy:
    """The policy with other settings. Errors: `SettingError`."""
    type(policy).check_names(settings)
    return dataclasses.replace(policy, **settings)


def growth_key(policy: Policy, forced: Sequence[bool]) -> tuple:
    """What a grown tree depends on: where choices are forced, not on what would make them."""
    passed = {*(("budget",) if policy.reranks else ()), *(("threshold", "call_budget", "schedule") if forced else ())}
    settings = (value for name, value in policy.settings.items() if name not in passed)
    return (policy.name, policy.capacity, *settings, tuple(forced))


def host_time(run: Run) -> float:
    """Microseconds of a round outside model forwards, the median of the run."""
    spent = [round.record.times.get("total", 0) - sum(one.microseconds for one in round.record.forwards)
             for round in run.rounds]
    return max(0.0, statistics.median(spent)) if spent else 0.0
