"""What a record must be beyond its types, so that all later code can trust it: ids in range, columns aligned, trees
that are trees, events that refer to what exists. Writers and readers both apply these checks.

Errors: every function raises `TraceError` with the field.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import lt
from typing import NoReturn

from treegraft.trace.codec import TraceError
from treegraft.trace.records import TARGET, Accept, Event, Expand, Header, Nodes, Prefill, Prune, Round, Verify

MAX_NODES = 8192
"""Nodes of one round: their ancestor mask takes the square of it in bytes."""
MAX_EVENTS = 1024


def check_order(before: Collection[str], kind: str) -> None:
    """Check that a record of `kind` may follow those in its run (`before`, their kinds)."""
    need("end" not in before, "kind", f"was {kind!r} after the run's end; a new run starts with a header")
    if kind == "prefill":
        need("prefill" not in before and "round" not in before, "kind",
             "was 'prefill'; a run has one, before its first round")


def check_header(header: Header) -> None:
    ids = [drafter.id for drafter in header.drafters]
    need(len(set(ids)) == len(ids), "drafters", "two drafters share an id; number them 0, 1, ...")
    need(set(header.policy.drafters) <= set(ids), "policy.drafters", "names a drafter id that `drafters` lacks")
    need(len(header.prompt.tokens) > 0, "prompt.tokens", "is empty; a prompt has at least one token")


def check_prefill(prefill: Prefill, header: Header) -> None:
    size = prefill.k * len(header.prompt.tokens)
    for name, column in (("tokens", prefill.tokens), ("logprobs", prefill.logprobs)):
        need(len(column) == size, name, f"has {len(column)} entries; k x prompt tokens is {size}")
    models = {TARGET, *(drafter.id for drafter in header.drafters)}
    need(all(forward.model in models for forward in prefill.forwards), "forwards", "names an unknown model")


def check_round(record: Round, header: Header) -> None:
    """Check a round by itself."""
    drafters = {drafter.id for drafter in header.drafters}
    models = drafters | {TARGET}
    prompt = len(header.prompt.tokens)
    first = record.context == prompt + 1
    need(first if record.index == 0 else record.context > prompt + record.index, "context",
         f"was {record.context}; the prompt has {prompt} tokens and the root follows, so round 0 has {prompt + 1} and "
         "every round adds at least one")
    check_nodes(record.nodes, record.root, drafters)
    need(all(forward.model in models for forward in record.forwards), "forwards", "names an unknown model")
    need(models >= record.kv.keys(), "kv", "names an unknown model")
    need(len(record.events) <= MAX_EVENTS, "events", f"are {len(record.events)}; allowed: {MAX_EVENTS}")
    kinds = [type(event) for event in record.events]
    need(kinds[-2:] == [Verify, Accept] and kinds.count(Verify) == kinds.count(Accept) == 1, "events",
         "must end with one verify and one accept, which may not come before")
    Events(record.nodes, drafters).follow(record.events)


def check_follows(record: Round, before: Round | None, root: int | None) -> None:
    """Check a round against the one before it, or against the root that the prefill chose."""
    if before is None:
        need(record.index == 0, "index", f"was {record.index}; the first round of a run is 0")
        need(root in (None, record.root), "root", f"was {record.root}; the prefill chose {root}")
        return
    accept = before.events[-1]
    assert isinstance(accept, Accept)
    need(accept.discarded == 0, "index", f"was {record.index}, but the text ended in the round before it")
    need(record.index == before.index + 1, "index", f"was {record.index}; {before.index + 1} is next")
    need(record.root == accept.bonus, "root", f"was {record.root}; the bonus of the round before is {accept.bonus}")
    context = before.context + len(accept.path) + 1
    need(record.context == context, "context", f"was {record.context}; after the round before it is {context}")


def check_nodes(nodes: Nodes, root: int, drafters: Collection[int]) -> None:
    """Check that the columns describe a tree of drafted tokens."""
    size, parent = len(nodes.token), nodes.parent
    need(0 < size <= MAX_NODES, "nodes.token", f"has {size} entries; allowed: 1 to {MAX_NODES}")
    for name in ("parent", "origin", "score", "proposers"):
        length = len(getattr(nodes, name))
        need(length == size, f"nodes.{name}", f"has {length} entries; `token` has {size}")
    need(nodes.token[0] == root, "root", f"was {root}; node 0 holds {nodes.token[0]}")
    need((parent[0], nodes.origin[0], nodes.proposers[0]) == (-1, -1, 0), "nodes",
         "start with the root: parent -1, origin -1, proposers 0")
    need(min(parent[1:], default=0) >= 0 and all(map(lt, parent, range(size))), "nodes.parent",
         "has an entry that is not an earlier node")
    need(len(set(zip(parent, nodes.token, strict=True))) == size, "nodes.token", "repeats a token below one parent")
    need(drafters >= set(nodes.origin[1:]), "nodes.origin", "names an unknown drafter")
    known = sum(1 << drafter for drafter in drafters)
    need(all(bits >> origin & 1 and bits | known == known
             for bits, origin in zip(nodes.proposers[1:], nodes.origin[1:], strict=True)),
         "nodes.proposers", "has an entry without the node's origin, or with an unknown drafter")


class Events:
    """Follows the events of a round. `born` nodes exist so far, `kept` were not pruned, `verified` went to the target.
    """

    def __init__(self, nodes: Nodes, drafters: Collection[int]) -> None:
        self.nodes, self.drafters = nodes, drafters
        self.born = 1
        self.kept = {0}
        self.verified: set[int] = set()
        self.score = nodes.score[:1]
        self.verify: Verify | None = None
        self.place = ""

    def follow(self, events: Sequence[Event]) -> None:
        for number, event in enumerate(events):
            self.place = f"events[{number}]"
            match event:
                case Expand():
                    self.expand(event)
                case Prune():
                    self.prune(event)
                case Verify():
                    self.check_verify(event)
                case Accept():
                    self.check_accept(event)
        self.place = "nodes"
        self.need(self.born == len(self.nodes.token), "token", f"has {len(self.nodes.token)} nodes; the events make "
                  f"{self.born}")
        self.need(self.score == self.nodes.score, "score", "differs from the scores that the events leave")

    def expand(self, event: Expand) -> None:
        size = len(event.nodes)
        self.need(event.drafter in self.drafters, "drafter", f"was {event.drafter}, which the header does not have")
        self.need(event.nodes == list(range(self.born, self.born + size)), "nodes",
                  f"must go on from {self.born} without a gap: nodes are numbered in order of birth")
        self.aligned(event.nodes, scores=event.scores, match=event.match, source=event.source)
        self.aligned(event.raised, raised_scores=event.raised_scores)
        for name, ids in (("parents", event.parents), ("merged", event.merged), ("stopped", event.stopped or []),
                          ("raised", event.raised)):
            self.need(max(ids, default=0) < self.born, name, "names a node that does not exist yet")
        self.need(set(self.nodes.origin[self.born : self.born + size]) <= {event.drafter}, "drafter",
                  f"was {event.drafter}; `nodes.origin` says otherwise")
        self.kept.update(event.nodes)
        self.born += size
        self.score += event.scores
        for node, score in zip(event.raised, event.raised_scores, strict=True):
            self.score[node] = score

    def prune(self, event: Prune) -> None:
        kept = set(event.kept)
        self.need(event.kept[:1] == [0] and event.kept == sorted(kept), "kept",
                  "must hold node ids in ascending order, the root 0 first")
        self.need(kept <= self.kept, "kept", "holds a node that does not exist yet or was pruned before")
        self.need(all(self.nodes.parent[node] in kept for node in event.kept[1:]), "kept", "lacks a node's parent")
        self.need(len(kept) - 1 <= event.budget, "kept", f"has {len(kept) - 1} drafted nodes; budget {event.budget}")
        self.kept = kept

    def check_verify(self, event: Verify) -> None:
        self.verified, self.verify = set(event.order), event
        self.need(event.order[:1] == [0], "order", "must start with the root 0")
        self.need(len(self.verified) == len(event.order), "order", "repeats a node")
        self.need(self.verified == self.kept, "order", "must be the nodes that exist and were not pruned")
        self.aligned(event.order, argmax=event.argmax, logprob=event.logprob)
        seen: set[int] = {-1}
        for node in event.order:
            self.need(self.nodes.parent[node] in seen, "order", f"has node {node} before its parent")
            seen.add(node)
        for row, walked in enumerate(event.walk):
            where = f"walk[{row}]."
            self.need(walked.node in self.verified, where + "node", f"was {walked.node}, which was not verified")
            self.aligned(walked.tokens, where, logprobs=walked.logprobs)
            self.aligned(walked.children, where, ranks=walked.ranks)
            self.need(all(child in self.verified and self.nodes.parent[child] == walked.node
                          for child in walked.children), where + "children", "holds a node that is no verified child")

    def check_accept(self, event: Accept) -> None:
        assert self.verify
        walk = [0, *event.path]
        for parent, node in zip(walk, event.path, strict=False):
            self.need(node in self.verified and self.nodes.parent[node] == parent, "path",
                      f"goes from node {parent} to {node}, which is not a verified child of it")
        for row, tried in enumerate(event.tried):
            where = f"tried[{row}]."
            self.need(tried.node in self.verified, where + "node", f"was {tried.node}, which was not verified")
            self.need(tried.accepted == (tried.node in event.path), where + "accepted", "does not agree with `path`")
        self.need(event.discarded <= len(walk), "discarded", f"was {event.discarded}; the round has {len(walk)} tokens")
        if event.rule == "greedy":
            favourite = dict(zip(self.verify.order, self.verify.argmax, strict=True))
            tokens = [*(self.nodes.token[node] for node in event.path), event.bonus]
            self.need([favourite[node] for node in walk] == tokens, "path",
                      "does not follow the target's favourites, which the greedy rule does")

    def aligned(self, ids: Sequence[int], where: str = "", **columns: Sequence[object] | None) -> None:
        for name, column in columns.items():
            self.need(column is None or len(column) == len(ids), where + name,
                      f"has {len(column or [])} entries; {len(ids)} are needed")

    def need(self, good: bool, field: str, problem: str) -> None:
        if not good:
            fail(f"{self.place}.{field}", problem)


def need(good: bool, field: str, problem: str) -> None:
    if not good:
        fail(field, problem)


def fail(field: str, problem: str) -> NoReturn:
    raise TraceError(problem, field=field)
