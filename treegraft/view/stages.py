"""Sentences about what several drafters do in one tree: decisions, rescoring, reselection, gates, grafts, learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treegraft.trace.records import Expand, Graft, Rescore
from treegraft.view.events import ranks
from treegraft.view.labels import name
from treegraft.view.words import GRAFT_PARTS, Sentence, say

if TYPE_CHECKING:
    from treegraft.trace.records import Decide, Event, Gate, Learn, Logprob, Nodes, Other, Reselect
    from treegraft.view.events import Growth


def decide(event: Decide, strong: int) -> Sentence:
    """Whether the drafter `strong` was called, and why."""
    if event.margin is None or event.threshold is None or event.rule == "forced":
        key = "decide call fixed" if event.call else "decide skip fixed"
        return say(key, strong=strong, rule=name(event.rule))
    margins = {"strong": strong, "margin": event.margin, "threshold": event.threshold}
    if event.calls_left == 0 and not event.call:
        return say("decide spent", **margins)
    return say("decide call" if event.call else "decide skip", **margins, left=event.calls_left)


def rescore(event: Rescore) -> Sentence:
    """How many scores rose and fell."""
    if not event.nodes and not event.unreachable:
        return say("rescore nothing", drafter=event.drafter)
    rose = sum(rises(before, after) for before, after in zip(event.before, event.after, strict=True))
    values = {"drafter": event.drafter, "nodes": len(event.nodes), "rose": rose, "fell": len(event.nodes) - rose}
    if event.unreachable:
        return say("rescore unreachable", **values, unreachable=len(event.unreachable))
    return say("rescore", **values)


def rises(before: Logprob, after: Logprob) -> bool:
    """Whether a score rises by a change; any score is more than none."""
    return after is not None and (before is None or after > before)


def reselect(event: Reselect, depth: Sequence[int]) -> Sentence:
    """How much of the frontier stayed, and how much of the new one is from levels that the old one had left."""
    before, after = set(event.before), set(event.after)
    if not after:
        return say("reselect nothing", pool=event.pool)
    if before == after:
        return say("reselect same", after=len(after), pool=event.pool)
    levels = {depth[node] for node in before}
    return say("reselect", after=len(after), pool=event.pool, before=len(before), stayed=len(before & after),
               earlier=sum(depth[node] not in levels for node in after - before))


def gate(event: Gate) -> Sentence:
    """Whether drafting went on, and by which numbers."""
    return say("gate stop" if event.stop else "gate go", layer=event.layer, measure=name(event.measure),
               value=event.value, threshold=event.threshold,
               compared="above" if event.value > event.threshold else "not above")


def graft(event: Graft) -> Sentence:
    """How the budget was shared, and what became of the retrieved share."""
    values = {"stage": name(event.stage), "drafter": event.drafter, "drafted": event.drafted,
              "retrieved": event.retrieved, "nodes": len(event.nodes)}
    counts = {"merged": len(event.merged), "replaced": event.replaced, "shortfall": event.shortfall}
    parts = {part: counts[part] for part in GRAFT_PARTS if counts[part]}
    return say(" ".join(("graft", *parts)), **values, **parts)


def learn(event: Learn) -> Sentence:
    """How many rows changed."""
    if not event.tokens:
        return say("learn nothing", drafter=event.drafter)
    return say("learn", drafter=event.drafter, rows=len(event.tokens))


def history(events: Sequence[Event | Other], grown: Growth, nodes: Nodes) -> dict[int, list[Sentence]]:
    """For each node that was retrieved, grafted, rescored or found unreachable, that it was."""
    found: dict[int, list[Sentence]] = {}
    for node, (drafter, rank) in ranks(events).items():
        above = nodes.token[nodes.parent[node]]
        found.setdefault(node, []).append(say("retrieved", place=rank + 1, drafter=drafter, parent=above))
    for event in events:
        for node in event.merged if isinstance(event, Graft) else ():
            found.setdefault(node, []).append(
                say("retrieved too", other=nodes.origin[node], drafter=event.drafter))
        for node in event.grafted if isinstance(event, Expand) else ():
            other = nodes.origin[nodes.parent[node]]
            found.setdefault(node, []).append(say("grafted", drafter=event.drafter, other=other, layer=event.layer))
    for node, changes in rescorings(events, grown).items():
        found.setdefault(node, []).append(_rescored(changes))
    unreachable = {node: event.drafter for event in events if isinstance(event, Rescore) for node in event.unreachable}
    for node, drafter in unreachable.items():
        found.setdefault(node, []).append(say("unreachable", drafter=drafter))
    return found


def rescorings(events: Sequence[Event | Other], grown: Growth) -> dict[int, list[tuple[Rescore, Logprob, Logprob]]]:
    """By node the events that rescored it, each with the score before and after."""
    found: dict[int, list[tuple[Rescore, Logprob, Logprob]]] = {}
    for number, node, before, after in grown.changes:
        event = events[number]
        if isinstance(event, Rescore):
            found.setdefault(node, []).append((event, before, after))
    return found


def _rescored(changes: Sequence[tuple[Rescore, Logprob, Logprob]]) -> Sentence:
    last, values = changes[-1][0], {"before": changes[0][1], "after": changes[-1][2]}
    if len(changes) == 1:
        return say("rescored", drafter=last.drafter, layer=last.layer, **values)
    return say("rescored again", drafter=last.drafter, layer=last.layer, times=len(changes), **values)
