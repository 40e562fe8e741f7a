"""What a recording says about a run, one of its rounds, events or nodes, by names that lessons use.

Times are measured; all else was recorded or is counted from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from treegraft.analysis.metrics import summary
from treegraft.analysis.oracle import reach
from treegraft.trace import Run
from treegraft.trace.reader import TracedRound
from treegraft.trace.records import TARGET, Decide, Expand, Gate, Graft, Rescore
from treegraft.trace.replay import ending
from treegraft.view.events import grafts, retrieved, timeline
from treegraft.view.explain import Explainer
from treegraft.view.labels import label
from treegraft.view.labels import name as shown
from treegraft.view.lesson_places import LessonError, Spot, changes, find_node, siblings
from treegraft.view.words import milliseconds, number, prob, score


@dataclass(frozen=True)
class Fact:
    """A value to compare, and the words for it."""

    value: float | str
    text: str


def fact(run: Run, spot: Spot | None, name: str) -> Fact:
    """A fact by name: of the node, the event, the round at `spot`, or of the whole run. Errors: `LessonError`."""
    if spot and name.startswith("token of "):
        round = run.rounds[spot.round]
        return _token(round, find_node(round, name.removeprefix("token of ")))
    groups = [run_facts(run)]
    if spot:
        round = run.rounds[spot.round]
        groups += [round_facts(round), event_facts(round, spot.event), node_facts(round, spot.node)]
    known = {key: value for group in groups for key, value in group.items()}
    if name not in known:
        raise LessonError(f"there is no fact “{name}” here; there are: {', '.join(sorted(known))}.")
    return known[name]


def _counts(**values: float) -> dict[str, Fact]:
    """Whole numbers by name; underscores of a name are read as spaces."""
    return {name.replace("_", " "): Fact(value, str(value)) for name, value in values.items()}


def _numbers(values: dict[str, float | None], unit: str = "") -> dict[str, Fact]:
    """Numbers with two decimals; those that are not there are left out."""
    return {name: Fact(value, number(value) + unit) for name, value in values.items() if value is not None}


def _token(round: TracedRound, node: int | str) -> Fact:
    token = ending(round.record)[1].bonus if node == "bonus" else round.record.nodes.token[node]
    text = f"“{label(round.run.pieces.get(token))}”"
    return Fact(text, text)


# --- the run --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def run_facts(run: Run) -> dict[str, Fact]:
    """Of the whole run; it must have ended, since the facts are kept."""
    told = summary(run)
    decided = [event.call for record in run.records for event in record.events if isinstance(event, Decide)]
    found = _counts(rounds=told.rounds, tokens=told.tokens, tokens_of_rounds=told.tokens - 1,
                    all_accepted=told.accepted, all_drafted=told.drafted, all_grown=told.grown,
                    decisions=len(decided), calls=sum(decided), skips=len(decided) - sum(decided),
                    rounds_with_none_accepted=told.rejected_rounds)
    found |= _numbers({"tau": told.tau, "accepted a round": told.mean_accepted})
    if run.end:
        found |= _seconds("seconds", run.end.microseconds)
        if run.end.baseline:
            found |= _seconds("plain seconds", run.end.baseline.microseconds)
    if decided:
        word = "It calls" if decided[min(1, len(decided) - 1)] else "It skips"
        found["second decision"] = Fact(word, word)
    threshold = run.header.policy.settings.get("threshold")
    if isinstance(threshold, int | float):
        found["threshold"] = Fact(threshold, f"{number(threshold)} ms")
    names = [shown(drafter.name) for drafter in run.header.drafters]
    found |= _counts(drafters=len(names))
    return found | ({"first drafter": Fact(names[0], names[0]), "last drafter": Fact(names[-1], names[-1])}
                    if names else {})


def _seconds(name: str, microseconds: int) -> dict[str, Fact]:
    return _numbers({name: microseconds / 1e6}, " s")


# --- a round and an event of it -------------------------------------------------------------------------------------


def round_facts(round: TracedRound) -> dict[str, Fact]:
    """Of one round."""
    record, fates = round.record, Counter(round.fates)
    events, right = timeline(record), reach(round)
    grown, kept = len(record.nodes.token) - 1, len(record.nodes.token) - 1 - fates["pruned"]
    found = _counts(
        round=round.index, accepted=round.accepted, written=round.outcome.taken, grown=grown, kept=kept,
        pruned=fates["pruned"], rejected=fates["rejected"], unreached=fates["unreached"],
        discarded=ending(record)[1].discarded, verified=len(ending(record)[0].order), right=right.grown,
        lost=right.grown - right.verified,
        layers=len({event.layer for event in record.events if isinstance(event, Expand)}),
        grafts=len(grafts(events)), retrieved_alone=len(retrieved(events).new),
        retrieved_accepted=len(retrieved(events).new.intersection(round.path)))
    decided = [event.call for event in record.events if isinstance(event, Decide)]
    found |= _counts(round_calls=sum(decided), round_skips=len(decided) - sum(decided))
    time = sum(one.microseconds for one in record.forwards if one.model == TARGET)
    found["target time"] = Fact(time, f"{milliseconds(time)} ms")
    found |= {"root": _token(round, 0), "bonus": _token(round, "bonus"), "path": _text(round, round.path)}
    prune = round.event("prune")
    return found | (_counts(budget=prune.budget) if prune else {})


def _text(round: TracedRound, nodes: Iterable[int]) -> Fact:
    text = "“" + "".join(label(round.run.pieces.get(round.record.nodes.token[node])) for node in nodes) + "”"
    return Fact(text, text)


def event_facts(round: TracedRound, place: int) -> dict[str, Fact]:
    """Of one event of a round."""
    event: Any = timeline(round.record)[place]
    if isinstance(event, Expand):
        found = _counts(layer=event.layer, new=len(event.nodes)) | {"new tokens": _text(round, event.nodes)}
        return found | (_counts(match=max(event.match)) if event.match else {})
    if isinstance(event, Decide):
        found = _counts(layer=event.layer, calls_left=event.calls_left)
        return found | _numbers({"margin": event.margin, "event threshold": event.threshold}, " ms")
    if isinstance(event, Rescore):
        return _counts(changed=len(event.nodes))
    if isinstance(event, Gate):
        return _counts(layer=event.layer) | _numbers({"confidence": event.value, "gate threshold": event.threshold})
    if isinstance(event, Graft):
        return _counts(drafted_share=event.drafted, retrieved_share=event.retrieved, retrieved=len(event.nodes),
                       retrieved_again=len(event.merged))
    return {}


# --- a node ---------------------------------------------------------------------------------------------------------


def node_facts(round: TracedRound, node: int | str | None) -> dict[str, Fact]:
    """Of the chosen node, if one is."""
    if node is None:
        return {}
    found = {"token": _token(round, node)}
    if node in (0, "bonus"):
        return found
    nodes, verify = round.record.nodes, ending(round.record)[0]
    beside = siblings(round, node)
    found |= _counts(place=beside.index(node) + 1, siblings=len(beside), rank=Explainer(round).rank[node])
    found |= {"parent": _token(round, nodes.parent[node]), "score": _score(nodes.score[node])}
    judged = dict(zip(verify.order, verify.logprob, strict=True))
    if node in judged:
        found["p"] = Fact(judged[node] or 0, prob(judged[node]))
    if node in changes(round):
        before, after = changes(round)[node]
        found |= {"score before": _score(before), "score after": _score(after)}
    return found


def _score(units: int | None) -> Fact:
    return Fact(float("-inf") if units is None else units, score(units))
