"""What a record must be beyond its types, so that all later code can trust it: ids in range, columns aligned, trees
that are trees, events that refer to what exists. Writers and readers both apply these checks.

Errors: every function raises `TraceError` with the field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import isfinite
from operator import lt
from typing import NoReturn

from treegraft.trace.codec import TraceError
from treegraft.trace.records import (
    TARGET,
    Accept,
    Decide,
    Event,
    Expand,
    Gate,
    Graft,
    Header,
    Learn,
    Nodes,
    Prefill,
    Probe,
    Prune,
    Rescore,
    Reselect,
    Round,
    Verify,
)
from treegraft.trace.replay import Outcome, outcome

MAX_NODES = 8192
"""Nodes of one round: their ancestor mask takes the square of it in bytes."""
MAX_EVENTS = 1024
SLACK = 1e-6
"""What rounding may add to chances that sum to one."""
LOG_SLACK = 100
"""What rounding may add to the log-probability of a certain token, in 1e-5 nats."""


def check_order(before: Collection[str], kind: str) -> None:
    """Check that a record of `kind` may follow those in its run (`before`, their kinds)."""
    if "end" in before:
        fail("kind", f"was {kind!r} after the run's end; a new run starts with a header")
    if kind == "prefill" and ("prefill" in before or "round" in before):
        fail("kind", "was 'prefill'; a run has one, before its first round")


def check_header(header: Header) -> None:
    ids = [drafter.id for drafter in header.drafters]
    if len(set(ids)) < len(ids):
        fail("drafters", "two drafters share an id; number them 0, 1, ...")
    if not set(header.policy.drafters) <= set(ids):
        fail("policy.drafters", "names a drafter id that `drafters` lacks")
    if not header.prompt.tokens:
        fail("prompt.tokens", "is empty; a prompt has at least one token")
    for name in ("temperature", "top_p", "min_p"):
        if not isfinite(value := getattr(header.decoding, name)) or value < 0:
            fail(f"decoding.{name}", f"was {value}; allowed: numbers from 0")
    check_models(header, "costs", [curve.model for curve in header.costs])
    for number, curve in enumerate(header.costs):
        sizes = [tokens for tokens, _ in curve.points]
        if not sizes or not all(map(lt, sizes, sizes[1:])):
            fail(f"costs[{number}].points", "must hold one or more points, in rising order of tokens")


def check_prefill(prefill: Prefill, header: Header) -> None:
    size = prefill.k * len(header.prompt.tokens)
    aligned(size, "", tokens=prefill.tokens, logprobs=prefill.logprobs)
    possible("", logprobs=prefill.logprobs)
    check_models(header, "forwards", [forward.model for forward in prefill.forwards])


def check_round(record: Round, header: Header) -> None:
    """Check a round by itself."""
    first = len(header.prompt.tokens) + 1
    if record.context < first + record.index or (record.index == 0 and record.context > first):
        fail("context", f"was {record.context}; it is {first} (the prompt and the root) in round 0 and grows by at "
             "least one a round")
    drafters = {drafter.id for drafter in header.drafters}
    check_nodes(record.nodes, record.root, drafters)
    check_models(header, "forwards", [forward.model for forward in record.forwards])
    check_models(header, "kv", record.kv)
    if len(record.events) > MAX_EVENTS:
        fail("events", f"has {len(record.events)} entries; allowed: {MAX_EVENTS}")
    kinds = [type(event) for event in record.events]
    drafted = [kind for kind in kinds if kind is not Learn]
    if drafted[-2:] != [Verify, Accept] or kinds.count(Verify) + kinds.count(Accept) != 2 or Learn in kinds[
            : kinds.index(Accept)]:
        fail("events", "must end with one verify, one accept, and what was learned from them")
    Events(record, drafters).follow(record.events)


def check_follows(record: Round, before: Round | None, root: int | None) -> None:
    """Check a round against the one before it, or against the root that the prefill chose."""
    if before is None:
        if record.index != 0:
            fail("index", f"was {record.index}; the first round of a run is 0")
    elif record.index != before.index + 1:
        fail("index", f"was {record.index}; after the round before it, it is {before.index + 1}")
    check_start(record.index, record.root, record.context, before and outcome(before), root)


def check_start(index: int, root: int, context: int, before: Outcome | None, chosen: int | None) -> None:
    """Check where round `index` starts: where the round `before` it ended, or at the root that the prefill has
    `chosen`. What is None is not known."""
    if before is None:
        if chosen not in (None, root):
            fail("root", f"was {root}; the prefill chose {chosen}")
        return
    if before.taken < len(before.tokens):
        fail("index", f"was {index}, but the text ended in the round before it")
    for name, value, expected in (("root", root, before.tokens[-1]),
                                  ("context", context, before.context + len(before.tokens))):
        if value != expected:
            fail(name, f"was {value}; after the round before it, it is {expected}")


def check_probe(probe: Probe, header: Header) -> None:
    """Check a probe by itself."""
    if probe.drafter not in {drafter.id for drafter in header.drafters}:
        fail("drafter", f"was {probe.drafter}, which the header does not have")
    if probe.context <= len(header.prompt.tokens):
        fail("context", f"was {probe.context}; it counts the prompt and the root, {len(header.prompt.tokens) + 1} or "
             "more")
    size = len(probe.token)
    if not 0 < size <= MAX_NODES:
        fail("token", f"has {size} entries; allowed: 1 to {MAX_NODES}")
    aligned(size, "", parent=probe.parent, logprob=probe.logprob)
    possible("", logprob=probe.logprob, best_logprobs=probe.best_logprobs)
    check_shape(probe.token, probe.parent, "")
    for name, ids in (("unreachable", probe.unreachable), ("expanded", probe.expanded)):
        if len(set(ids)) < len(ids) or max(ids, default=0) >= size:
            fail(name, "repeats a node or names one that the probe does not have")
    aligned(len(probe.expanded) * probe.k, "", best=probe.best, best_logprobs=probe.best_logprobs or None)
    if probe.best_logprobs and -1 in probe.best:
        fail("best", "has a -1 beside `best_logprobs`; only drafters without probabilities leave places empty")


def check_shape(token: Sequence[int], parent: Sequence[int], place: str) -> None:
    """Check that the columns describe a tree with no token twice below one parent."""
    if parent[0] != -1:
        fail(place + "parent", f"starts with {parent[0]}; node 0 is the root, with parent -1")
    if min(parent[1:], default=0) < 0 or not all(map(lt, parent, range(len(parent)))):
        fail(place + "parent", "has an entry that is not an earlier node")
    if len(set(zip(parent, token, strict=True))) < len(token):
        fail(place + "token", "repeats a token below one parent")


def check_models(header: Header, field: str, models: Iterable[int]) -> None:
    unknown = set(models) - {TARGET, *(drafter.id for drafter in header.drafters)}
    if unknown:
        fail(field, f"names model {min(unknown)}, which the header does not have")


def check_nodes(nodes: Nodes, root: int, drafters: set[int]) -> None:
    """Check that the columns describe a tree of drafted tokens."""
    size, parent = len(nodes.token), nodes.parent
    if not 0 < size <= MAX_NODES:
        fail("nodes.token", f"has {size} entries; allowed: 1 to {MAX_NODES}")
    aligned(size, "nodes.", parent=parent, origin=nodes.origin, score=nodes.score, proposers=nodes.proposers)
    possible("nodes.", score=nodes.score[:1])  # the others are those of the events
    if nodes.token[0] != root:
        fail("root", f"was {root}; node 0 holds {nodes.token[0]}")
    if (parent[0], nodes.origin[0], nodes.proposers[0]) != (-1, -1, 0):
        fail("nodes", "must start with the root: parent -1, origin -1, proposers 0")
    check_shape(nodes.token, parent, "nodes.")
    if not drafters >= set(nodes.origin[1:]):
        fail("nodes.origin", "names a drafter that the header does not have")
    known = sum(1 << drafter for drafter in drafters)
    for origin, bits in set(zip(nodes.origin[1:], nodes.proposers[1:], strict=True)):
        if not bits >> origin & 1 or bits | known != known:
            fail("nodes.proposers", f"has {bits} for a node of drafter {origin}; it is the bit set of the drafters "
                 "that proposed the node")


class Events:
    """Follows the events of a round. `born` counts the nodes so far; `kept` are those not pruned."""

    def __init__(self, record: Round, drafters: set[int]) -> None:
        self.nodes, self.context, self.drafters = record.nodes, record.context, drafters
        self.born = 1
        self.kept = {0}
        self.score = record.nodes.score[:1]
        self.target: dict[int, int] = {}
        self.place = ""

    def follow(self, events: Sequence[Event]) -> None:
        checks = {Expand: self.expand, Decide: self.decide, Rescore: self.rescore, Reselect: self.reselect,
                  Gate: self.gate, Graft: self.graft, Prune: self.prune, Verify: self.verify, Accept: self.accept,
                  Learn: self.learn}
        for number, event in enumerate(events):
            self.place = f"events[{number}]."
            checks[type(event)](event)
        if self.born != len(self.nodes.token):
            fail("nodes.token", f"has {len(self.nodes.token)} nodes; the events make {self.born}")
        if self.score != self.nodes.score:
            fail("nodes.score", "differs from the scores that the events leave")

    def expand(self, event: Expand) -> None:
        size = len(event.nodes)
        if event.nodes != list(range(self.born, self.born + size)):
            self.fail("nodes", f"must go on from {self.born} without a gap: nodes are numbered in order of birth")
        if set(self.nodes.origin[self.born : self.born + size]) - {event.drafter} or event.drafter not in self.drafters:
            self.fail("drafter", f"was {event.drafter}; `nodes.origin` or the header say otherwise")
        aligned(size, self.place, scores=event.scores, match=event.match, source=event.source, rank=event.rank)
        aligned(len(event.raised), self.place, raised_scores=event.raised_scores)
        possible(self.place, scores=event.scores, raised_scores=event.raised_scores)
        self.copied(event)
        self.known(parents=event.parents, merged=event.merged, raised=event.raised, stopped=event.stopped)
        if not set(event.grafted) <= set(event.nodes):
            self.fail("grafted", "holds a node that is not among the new ones")
        self.kept.update(event.nodes)
        self.born += size
        self.score += event.scores
        for node, score in zip(event.raised, event.raised_scores, strict=True):
            self.score[node] = score

    def copied(self, event: Expand) -> None:
        """Check that what was copied, and what matched before it, lie in the text."""
        for place, source in enumerate(event.source or ()):
            if source is None:
                continue
            if source >= self.context:
                self.fail("source", f"was {source}; the text has {self.context} tokens, so that its last position is "
                          f"{self.context - 1}")
            if event.match and event.match[place] > source:
                self.fail("match", f"was {event.match[place]} tokens before position {source}; there are {source} "
                          "tokens before it")

    def known(self, **ids: Sequence[int] | None) -> None:
        """Check that nodes exist by now."""
        for name, nodes in ids.items():
            if nodes and max(nodes) >= self.born:
                self.fail(name, f"names node {max(nodes)}, which does not exist yet")

    def decide(self, event: Decide) -> None:
        numbers = [event.margin or 0.0, event.threshold or 0.0, *event.features.values()]
        if not all(map(isfinite, numbers)):
            self.fail("features", "or the margin hold a number that is not finite")

    def of(self, drafter: int) -> None:
        """Check that the header has the drafter."""
        if drafter not in self.drafters:
            self.fail("drafter", f"was {drafter}, which the header does not have")

    def rescore(self, event: Rescore) -> None:
        self.of(event.drafter)
        aligned(len(event.nodes), self.place, before=event.before, after=event.after)
        possible(self.place, after=event.after)
        self.known(nodes=event.nodes, unreachable=event.unreachable)
        if [self.score[node] for node in event.nodes] != event.before:
            self.fail("before", "differs from the scores that the events before it leave")
        for node, score in zip(event.nodes, event.after, strict=True):
            self.score[node] = score

    def reselect(self, event: Reselect) -> None:
        self.known(before=event.before, after=event.after)
        if len(set(event.after)) < len(event.after) or len(event.after) > event.pool:
            self.fail("after", f"repeats a node or holds more than the {event.pool} that there were to choose from")

    def gate(self, event: Gate) -> None:
        if not isfinite(event.value) or not isfinite(event.threshold):
            self.fail("value", "or the threshold is not a finite number")

    def graft(self, event: Graft) -> None:
        self.of(event.drafter)
        self.known(nodes=event.nodes)
        retrieved = set(event.nodes)
        if len(retrieved) < len(event.nodes) or not all(
                self.nodes.proposers[node] >> event.drafter & 1 for node in retrieved):
            self.fail("nodes", f"repeats a node or holds one that drafter {event.drafter} did not propose")
        if not set(event.merged) <= retrieved:
            self.fail("merged", "holds a node that is not among the retrieved ones")

    def prune(self, event: Prune) -> None:
        kept = set(event.kept)
        if event.kept[:1] != [0] or event.kept != sorted(kept):
            self.fail("kept", "must hold node ids in ascending order, the root 0 first")
        if not kept <= self.kept:
            self.fail("kept", f"holds node {min(kept - self.kept)}, which does not exist yet or was pruned before")
        if not {self.nodes.parent[node] for node in event.kept[1:]} <= kept:
            self.fail("kept", "holds a node without its parent")
        if len(kept) - 1 > event.budget:
            self.fail("kept", f"has {len(kept) - 1} drafted nodes; the budget is {event.budget}")
        self.kept = kept

    def verify(self, event: Verify) -> None:
        aligned(len(event.order), self.place, argmax=event.argmax, logprob=event.logprob)
        possible(self.place, logprob=event.logprob)
        self.target = dict(zip(event.order, event.argmax, strict=True))
        if self.target.keys() != self.kept or len(self.target) < len(event.order):
            self.fail("order", "must hold each node that exists and was not pruned, once")
        seen = {-1}
        for node in event.order:
            if self.nodes.parent[node] not in seen:
                self.fail("order", f"has node {node} before its parent")
            seen.add(node)
        for row, walked in enumerate(event.walk):
            place = f"{self.place}walk[{row}]."
            aligned(len(walked.tokens), place, logprobs=walked.logprobs)
            possible(place, logprobs=walked.logprobs)
            aligned(len(walked.children), place, ranks=walked.ranks)
            for child in walked.children:
                if child not in self.kept or self.nodes.parent[child] != walked.node:
                    fail(place + "children", f"holds {child}, which is no verified child of node {walked.node}")
            if walked.node not in self.kept:
                fail(place + "node", f"was {walked.node}, which was not verified")

    def accept(self, event: Accept) -> None:
        walk = [0, *event.path]
        for parent, node in zip(walk, event.path, strict=False):
            if node not in self.kept or self.nodes.parent[node] != parent:
                self.fail("path", f"goes from node {parent} to {node}, which is no verified child of it")
        self.tried(event)
        self.chances(event.chances)
        if event.discarded > len(walk):
            self.fail("discarded", f"was {event.discarded}; the round has {len(walk)} tokens")
        tokens = [*(self.nodes.token[node] for node in event.path), event.bonus]
        if event.rule == "greedy" and [self.target[node] for node in walk] != tokens:
            self.fail("path", "or the bonus is not the target's favourite, which the greedy rule takes")

    def tried(self, event: Accept) -> None:
        """Check the verdicts, of which the last on a node counts: a token that was drawn twice has two."""
        path, last = set(event.path), {tried.node: tried.accepted for tried in event.tried}
        for row, tried in enumerate(event.tried):
            place = f"tried[{row}]"
            lost = tried.node in path and not last[tried.node]
            beside = tried.accepted and tried.node not in path and event.rule != "typical"
            if tried.node not in self.kept or lost or beside:
                self.fail(place, f"says accepted={tried.accepted} of node {tried.node}, which does not agree with the "
                          "path and the verified nodes")
            if tried.u is not None and not 0 <= tried.u <= 1:
                self.fail(place + ".u", f"was {tried.u}; allowed: 0 to 1")
            possible(f"{self.place}{place}.", p=[tried.p], q=[tried.q], residual=[left for _, left in tried.residual])
            tokens = [token for token, _ in tried.residual]
            if len(set(tokens)) < len(tokens):
                self.fail(place + ".residual", "repeats a token")

    def chances(self, chances: Sequence[float]) -> None:
        """Check that the chances of siblings are shares of one."""
        if not chances:
            return
        aligned(len(self.target), self.place, chances=chances)
        if not all(0 <= chance <= 1 + SLACK for chance in chances) or chances[0] != 1:
            self.fail("chances", "must lie between 0 and 1, the root's being 1")
        sums: dict[int, float] = {}
        for node, chance in zip(self.target, chances, strict=True):
            sums[self.nodes.parent[node]] = sums.get(self.nodes.parent[node], 0.0) + chance
        if max(sums.values()) > 1 + SLACK:
            self.fail("chances", f"of siblings sum to {max(sums.values())}; only one of them can be accepted")

    def learn(self, event: Learn) -> None:
        self.of(event.drafter)
        if len(set(event.tokens)) < len(event.tokens):
            self.fail("tokens", "repeats a token; a row is learned once a round")
        aligned(len(event.tokens) * event.k, self.place, successors=event.successors)
        for start in range(0, len(event.successors), event.k or 1):
            row = event.successors[start : start + event.k]
            known = row[: row.index(-1)] if -1 in row else row
            if len(set(known)) < len(known) or max(row[len(known):], default=-1) >= 0:
                self.fail("successors", "repeats a token in a row, or has one after a -1, which ends a row")

    def fail(self, field: str, problem: str) -> NoReturn:
        fail(self.place + field, problem)


def aligned(size: int, place: str, **columns: Sequence[object] | None) -> None:
    for name, column in columns.items():
        if column is not None and len(column) != size:
            fail(place + name, f"has {len(column)} entries; {size} are needed")


def possible(place: str, **columns: Sequence[int | None]) -> None:
    """Check that columns of log-probabilities, or of sums of them, hold no chance above 1."""
    for name, column in columns.items():
        highest = max(filter(None, column), default=0)
        if highest > LOG_SLACK:
            fail(place + name, f"holds {highest}, which is no log-probability; allowed: numbers up to 0")


def fail(field: str, problem: str) -> NoReturn:
    raise TraceError(problem, field=field)
