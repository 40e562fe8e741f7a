"""The events of a round as the views need them: in order, with titles, and with what each did to the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from treegraft.drafters import DRAFTERS, WITH_MODEL
from treegraft.trace.records import Accept, Decide, Expand, Gate, Graft, Other, Rescore, Reselect
from treegraft.view.acceptance import acceptance
from treegraft.view.feature_words import told
from treegraft.view.labels import name

if TYPE_CHECKING:
    from treegraft.trace.records import Event, Header, Logprob, Nodes, Round

MOST_FEATURES = 64
"""Features of a decision that are shown; TreeGraft's scheduler has 17."""


def kind_of(event: Event | Other) -> str:
    """The kind of an event, also of one that this version does not know."""
    return getattr(event, "kind", None) or event.__struct_config__.tag


def timeline(record: Round) -> list[Event | Other]:
    """All events in order, those of kinds that this version does not know included."""
    events: list[Event | Other] = list(record.events)
    for place, fields in record.unknown_events or ():
        events.insert(place, Other(kind=str(fields.get("kind", "")), fields=fields))
    return events


def strong_drafters(header: Header) -> set[int]:
    """The drafters whose layers are calls: of a policy that takes several the last one that runs a model, else all that
    run one."""
    free = {drafter.id for drafter in header.drafters if drafter.kind in DRAFTERS and drafter.kind not in WITH_MODEL}
    if len(header.policy.drafters) > 1:
        return set([drafter for drafter in header.policy.drafters if drafter not in free][-1:])
    return {drafter.id for drafter in header.drafters if drafter.kind in WITH_MODEL}


# --- what an event shows --------------------------------------------------------------------------------------------


def event_views(events: Sequence[Event | Other], strong: set[int]) -> list[dict[str, Any]]:
    """For each event its kind and title, its layer and drafter, and the nodes that it started from, met again, grafted,
    retrieved, tried or chose. `call` marks events that are part of a call, which the drafters in `strong` make."""
    views = []
    for number, event in enumerate(events):
        kind = name(kind_of(event))
        view: dict[str, Any] = {"kind": kind, "title": kind.capitalize()}
        if isinstance(event, Expand):
            view |= {"title": f"Layer {event.layer}", "layer": event.layer, "drafter": event.drafter,
                     "from": event.parents, "again": event.merged, "grafted": event.grafted,
                     "call": event.drafter in strong}
        elif isinstance(event, Decide):
            view |= _decision(event) | {"from": _frontier(events[number + 1:], event.layer)}
        elif isinstance(event, Rescore):
            view |= {"layer": event.layer, "drafter": event.drafter, "unreachable": event.unreachable,
                     "call": event.drafter in strong}
        elif isinstance(event, Reselect):
            view |= {"layer": event.layer, "before": event.before, "after": event.after, "pool": event.pool,
                     "call": True}
        elif isinstance(event, Gate):
            view |= _gate(event)
        elif isinstance(event, Graft):
            view |= _graft(event)
        elif isinstance(event, Accept):
            view |= acceptance(event)
        views.append(view)
    return views


def _decision(event: Decide) -> dict[str, Any]:
    features = [told(feature, value) for feature, value in islice(event.features.items(), MOST_FEATURES)]
    return {"title": f"Layer {event.layer}: {'call' if event.call else 'skip'}", "layer": event.layer,
            "call": event.call, "rule": name(event.rule), "left": event.calls_left, "margin": event.margin,
            "threshold": event.threshold, "features": features}


def _gate(event: Gate) -> dict[str, Any]:
    stage = name(event.stage)
    return {"title": f"{f'Gate {stage}' if stage else 'Gate'}: {'stop' if event.stop else 'go'}", "layer": event.layer,
            "measure": name(event.measure), "value": event.value, "threshold": event.threshold, "stop": event.stop,
            "stage": stage}


def _graft(event: Graft) -> dict[str, Any]:
    return {"title": f"Graft {name(event.stage)}".rstrip(), "drafter": event.drafter, "drafted": event.drafted,
            "retrieved": event.retrieved, "nodes": event.nodes, "merged": event.merged, "replaced": event.replaced,
            "shortfall": event.shortfall}


def _frontier(later: Sequence[Event | Other], layer: int) -> list[int]:
    """The nodes that a layer starts from, as its later events say: a call may choose others, a skip takes them."""
    for event in later:
        if isinstance(event, Expand | Reselect) and event.layer == layer:
            return event.before if isinstance(event, Reselect) else event.parents
    return []


# --- what the events did to the nodes -------------------------------------------------------------------------------


@dataclass
class Growth:
    """How the nodes of a round came to be.

    `born` is the number of the event that brought a node, -1 for the root. `q` is a node's log-probability under its
    drafter given its parent: the step from the parent's score to its own, as they were then. `changes` lists later
    changes of scores as (event, node, before, after)."""

    born: list[int]
    q: list[Logprob]
    changes: list[tuple[int, int, Logprob, Logprob]]


def growth(events: Sequence[Event | Other], nodes: Nodes) -> Growth:
    """Replay the events that add nodes or change scores."""
    size = len(nodes.token)
    grown = Growth([-1] * size, [None] * size, [])
    score: list[Logprob] = list(nodes.score)
    for number, event in enumerate(events):
        changed: Iterator[tuple[int, Logprob]] = iter(())
        if isinstance(event, Expand):
            for node, own in zip(event.nodes, event.scores, strict=True):
                grown.born[node], score[node] = number, own
                above = score[nodes.parent[node]]
                grown.q[node] = None if own is None or above is None else own - above
            changed = zip(event.raised, event.raised_scores, strict=True)
        elif isinstance(event, Rescore):
            changed = zip(event.nodes, event.after, strict=True)
        for node, after in changed:
            grown.changes.append((number, node, score[node], after))
            score[node] = after
    return grown


def copied(events: Sequence[Event | Other]) -> Iterator[tuple[int, list[int | None]]]:
    """For each copied node the length of its match and the position in the text that its token came from."""
    for event in events:
        if isinstance(event, Expand) and event.match and event.source:
            yield from zip(event.nodes, map(list, zip(event.match, event.source, strict=True)), strict=True)


def grafts(events: Sequence[Event | Other]) -> set[int]:
    """The nodes that continue a branch of another drafter."""
    return {node for event in events if isinstance(event, Expand) for node in event.grafted}


def ranks(events: Sequence[Event | Other]) -> dict[int, tuple[int, int]]:
    """For each node that a ranking drafter proposed, that drafter and the place in the row of the parent's token."""
    return {node: (event.drafter, rank) for event in events if isinstance(event, Expand) and event.rank
            for node, rank in zip(event.nodes, event.rank, strict=True)}


@dataclass
class Retrieved:
    """The nodes that took the place of drafted ones in a round: those that came with it, and the `merged` ones, which
    had been drafted already."""

    new: set[int]
    merged: set[int]

    @property
    def all(self) -> set[int]:
        return self.new | self.merged


def retrieved(events: Sequence[Event | Other]) -> Retrieved:
    """What the grafts of a round retrieved."""
    found = [event for event in events if isinstance(event, Graft)]
    merged = {node for event in found for node in event.merged}
    return Retrieved({node for event in found for node in event.nodes} - merged, merged)


def wall(events: Sequence[Event | Other], depth: Sequence[int]) -> list[Any] | None:
    """Where a gate stopped drafting: the number of its event, the depth of the tree by then, and its stage."""
    born = 1
    for number, event in enumerate(events):
        if isinstance(event, Expand):
            born += len(event.nodes)
        elif isinstance(event, Gate) and event.stop:
            return [number, max(depth[:born]), name(event.stage)]
    return None
