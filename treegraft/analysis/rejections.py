"""Which drafted tokens the target rejected, and what it chose in their place: the pairs that a drafter keeps getting
wrong."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from treegraft.trace.records import NATS, Logprob, Rescore
from treegraft.trace.runs import Run, TracedRound


@dataclass(frozen=True)
class Rejection:
    """One drafted token that the target rejected at a place that it reached.

    `node` holds the token `drafted` and was first proposed by `drafter`; after its parent the target chose `chosen`.
    `best` marks the token with the highest score among the verified ones there, if the target did not choose it.
    `pruned`: the chosen token had been drafted there, too, and was not sent to the target. `p_drafted` and `p_chosen`
    are the target's log-probabilities in 1e-5 nats, as the run drew (None where they were not recorded, or are 0).
    """

    round: int
    node: int
    drafter: int
    drafted: int
    chosen: int
    best: bool
    pruned: bool
    p_drafted: Logprob
    p_chosen: Logprob

    @property
    def gap(self) -> float | None:
        """How many nats more the target gave the chosen token; below 0 where a less likely one was drawn."""
        if self.p_drafted is None or self.p_chosen is None:
            return None
        return (self.p_chosen - self.p_drafted) / NATS


@dataclass(frozen=True)
class Pair:
    """All rejections of one drafted token of one drafter for one chosen token.

    Over the `known` ones, whose numbers were recorded: `gap` is the mean in nats, `p_drafted` and `p_chosen` are the
    mean probabilities under the target. `pruned` counts those whose chosen token had been drafted there, too. `could`
    says whether the drafter can propose the chosen token at all: True, False, or None where the recording does not
    tell."""

    drafted: int
    chosen: int
    drafter: int
    rejections: tuple[Rejection, ...]
    gap: float | None
    known: int
    p_drafted: float | None
    p_chosen: float | None
    pruned: int
    could: bool | None

    @property
    def count(self) -> int:
        return len(self.rejections)

    @property
    def rounds(self) -> list[int]:
        """The rounds that it happened in, each once."""
        return list(dict.fromkeys(one.round for one in self.rejections))


def rejections(run: Run) -> list[Rejection]:
    """Every rejection of a run, in the order of the text; places after the end of the text are left out."""
    return [found for round in run.rounds for found in _in_round(round)]


def pairs(run: Run, found: Iterable[Rejection]) -> list[Pair]:
    """The rejections by drafter, drafted and chosen token, the most frequent first, then by the size of the gap."""
    vocabulary = Vocabulary(run)
    groups: dict[tuple[int, int, int], list[Rejection]] = defaultdict(list)
    for one in found:
        groups[one.drafter, one.drafted, one.chosen].append(one)
    made = [_pair(group, vocabulary) for group in groups.values()]
    return sorted(made, key=lambda pair: (-pair.count, -(pair.gap or 0.0), pair.rounds[0]))


def _pair(group: Sequence[Rejection], vocabulary: Vocabulary) -> Pair:
    first = group[0]
    known = [one for one in group if one.gap is not None]
    return Pair(
        drafted=first.drafted, chosen=first.chosen, drafter=first.drafter, rejections=tuple(group),
        gap=_mean([one.gap for one in known]), known=len(known),
        p_drafted=_mean([math.exp(min(one.p_drafted, 0) / NATS) for one in known]),
        p_chosen=_mean([math.exp(min(one.p_chosen, 0) / NATS) for one in known]),
        pruned=sum(one.pruned for one in group), could=vocabulary.has(first.drafter, first.chosen))


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _in_round(round: TracedRound) -> Iterable[Rejection]:
    nodes, verify, accept = round.record.nodes, round.event("verify"), round.event("accept")
    outcome = round.outcome
    logprob = dict(zip(verify.order, verify.logprob, strict=True))
    walk = {walked.node: dict(zip(walked.tokens, walked.logprobs, strict=True)) for walked in verify.walk}
    for place, parent in enumerate([0, *accept.path][:outcome.taken]):
        chosen = outcome.tokens[place]
        children = [node for node in verify.order if nodes.parent[node] == parent]
        confirmed = next((node for node in children if nodes.token[node] == chosen), None)
        best = max(children, key=lambda node: (-1e18 if nodes.score[node] is None else nodes.score[node], -node),
                   default=None)
        drafted_too = any(nodes.parent[node] == parent and nodes.token[node] == chosen
                          for node in range(len(nodes.token)))
        p_chosen = logprob[confirmed] if confirmed is not None else walk.get(parent, {}).get(chosen)
        for node in children:
            if node != confirmed:
                yield Rejection(
                    round=round.index, node=node, drafter=nodes.origin[node], drafted=nodes.token[node], chosen=chosen,
                    best=node == best, pruned=confirmed is None and drafted_too, p_drafted=logprob[node],
                    p_chosen=p_chosen)


class Vocabulary:
    """Which tokens each drafter of a run can propose, as far as the recording tells: what it proposed anywhere, and
    what it scored without being able to propose it."""

    def __init__(self, run: Run) -> None:
        self._limits = {drafter.id: drafter.proposes for drafter in run.header.drafters}
        self._all = run.header.target.vocab_size
        self._can: dict[int, set[int]] = {drafter: set() for drafter in self._limits}
        self._cannot: dict[int, set[int]] = {drafter: set() for drafter in self._limits}
        for record in run.records:
            for token, bits in set(zip(record.nodes.token, record.nodes.proposers, strict=True)):
                for drafter in self._can:
                    if bits >> drafter & 1:
                        self._can[drafter].add(token)
            for event in record.events:
                if isinstance(event, Rescore):
                    self._cannot[event.drafter].update(record.nodes.token[node] for node in event.unreachable)
        for probe in run.probes:
            self._can[probe.drafter].update(probe.best)
            self._cannot[probe.drafter].update(probe.token[node] for node in probe.unreachable)

    def has(self, drafter: int, token: int) -> bool | None:
        """Whether `drafter` can propose `token`; None where the recording does not tell."""
        limit = self._limits[drafter]
        if limit is None or (self._all and limit >= self._all) or token in self._can[drafter]:
            return True
        return False if token in self._cannot[drafter] else None
