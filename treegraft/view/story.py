"""A round told in a few sentences: how its tree grew, why acceptance stopped, and how far the right tokens reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treegraft.trace.records import Decide, Gate
from treegraft.view.events import copied, grafts
from treegraft.view.words import GROWTH_PARTS, Sentence, say

if TYPE_CHECKING:
    from treegraft.analysis.oracle import Reach
    from treegraft.view.explain import Explainer


def story(explain: Explainer, strong: int | None) -> list[Sentence]:
    """How the tree grew and why the round accepted no more; nothing that its one-sentence summary says already."""
    return [*_growth(explain, strong), *_stop(explain)]


def _growth(explain: Explainer, strong: int | None) -> list[Sentence]:
    decisions = [event for event in explain.events if isinstance(event, Decide)]
    from_context = [node for node, (_, source) in copied(explain.events) if source is not None]
    counts = {"copied": len(from_context), "grafted": len(grafts(explain.events)),
              "pruned": explain.fates.count("pruned")}
    values: dict[str, Any] = {name: count for name, count in counts.items() if count}
    parts = list(values)
    if decisions and strong is not None:
        parts.insert(0, "calls")
        values |= {"strong": strong, "calls": sum(event.call for event in decisions), "layers": len(decisions)}
    parts.sort(key=list(GROWTH_PARTS).index)
    return [say(" ".join(("growth", *parts)), **values)] if parts else []


def _stop(explain: Explainer) -> list[Sentence]:
    if len(explain.token) == 1 or explain.accept.discarded:
        return []
    parent = explain.token[explain.tip]
    below = sum(explain.parent[node] == explain.tip for node in explain.kept)
    gate = next((event.layer for event in explain.events if isinstance(event, Gate) and event.stop), None)
    if below == 1:
        return [say("stop rejected one", parent=parent)]
    if below:
        return [say("stop rejected", parent=parent, below=below)]
    return [say("stop end", parent=parent) if gate is None else say("stop gate", parent=parent, layer=gate)]


def oracle(reach: Reach, accepted: int) -> list[Sentence]:
    """What was accepted against what the tree and each drafter held of the right tokens; nothing of an empty tree."""
    if not reach.alone:
        return []
    lost = reach.grown - reach.verified
    first = (say("oracle pruned", path=accepted, grown=reach.grown, lost=lost) if lost
             else say("oracle", path=accepted, grown=reach.grown))
    alone = reach.alone.items() if len(reach.alone) > 1 else ()
    return [first, *(say("oracle alone", drafter=drafter, alone=count) for drafter, count in alone)]
