"""Places of a run by what is there, so that a lesson finds them again in a recording that was made anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from treegraft.analysis.oracle import reach, right_path
from treegraft.trace import Run
from treegraft.trace.reader import TracedRound
from treegraft.trace.records import Expand, Gate, Rescore
from treegraft.view.events import grafts, kind_of, retrieved, timeline


class LessonError(ValueError):
    """A lesson that cannot be read, or does not fit its recording."""


class Spot(NamedTuple):
    """A round, one of its events, and a node (None: none is chosen)."""

    round: int
    event: int
    node: int | str | None


def place(run: Run, where: str) -> Spot:
    """The place that `where` names as `round, event, node`; the node may be left out. Errors: `LessonError`."""
    parts = [part.strip() for part in where.split(",")]
    if len(parts) not in (2, 3):
        raise LessonError(f"“at: {where}” must name a round, an event and, if one is to be chosen, a node.")
    round = find_round(run, parts[0])
    event = find_event(round, parts[1]) if parts[1] else len(timeline(round.record)) - 1
    return Spot(round.index, event, find_node(round, parts[2]) if parts[2:] else None)


# --- rounds ---------------------------------------------------------------------------------------------------------


def find_round(run: Run, name: str) -> TracedRound:
    """The first round that is what the name says most, or at all."""
    if not len(run.rounds):
        raise LessonError("the recording has no rounds.")
    if number := re.fullmatch(r"round (\d+)", name):
        return _first(run.rounds[int(number[1]):int(number[1]) + 1], name)
    if name == "last round":
        return run.rounds[-1]
    if name not in ROUNDS:
        raise LessonError(f"there is no round “{name}”; there are: round N, last round, {', '.join(ROUNDS)}.")
    best = max(run.rounds, key=ROUNDS[name])
    return _first([best] if ROUNDS[name](best) else [], name)


def _first(found: list, name: str):
    if not found:
        raise LessonError(f"it has no “{name}”.")
    return found[0]


def _early_stop(round: TracedRound) -> float:
    """More for a gate that stopped drafting earlier."""
    return max((1 / gate.layer for gate in _events(round, Gate) if gate.stop and gate.layer), default=0)


ROUNDS: dict[str, Callable[[TracedRound], float]] = {
    "most accepted": lambda round: round.accepted,
    "none accepted": lambda round: len(round.record.nodes.token) > 1 and not round.path,
    "surprise": lambda round: surprise(round) is not None,
    "lost to pruning": lambda round: reach(round).grown - reach(round).verified,
    "most grafted": lambda round: len(grafts(timeline(round.record))),
    "earliest stop": _early_stop,
}
"""How much a round is what its name says; 0 for not at all."""


# --- events ---------------------------------------------------------------------------------------------------------


def find_event(round: TracedRound, name: str) -> int:
    """Number of an event: `kind` (its first), `kind N`, or `last kind`."""
    parts = re.fullmatch(r"(last )?([a-z]+)(?: (\d+))?", name)
    numbers = [number for number, event in enumerate(timeline(round.record)) if parts and kind_of(event) == parts[2]]
    which = 1 if not parts else len(numbers) if parts[1] else int(parts[3] or 1)
    if not 1 <= which <= len(numbers):
        raise LessonError(f"round {round.index} has no event “{name}”.")
    return numbers[which - 1]


def _events(round: TracedRound, kind: type) -> list:
    return [event for event in round.record.events if isinstance(event, kind)]


# --- nodes ----------------------------------------------------------------------------------------------------------


def find_node(round: TracedRound, name: str) -> int | str:
    """A node of the round by what it is; `bonus` is the target's own token."""
    if name == "bonus":
        return name
    if name not in NODES:
        raise LessonError(f"there is no node “{name}”; there are: bonus, {', '.join(NODES)}.")
    node = NODES[name](round)
    if node is None:
        raise LessonError(f"round {round.index} has no node that is “{name}”.")
    return node


def siblings(round: TracedRound, node: int) -> list[int]:
    """The node and those with its parent, the best score first."""
    nodes = round.record.nodes
    return by_score(round, (one for one, parent in enumerate(nodes.parent) if parent == nodes.parent[node]))


def by_score(round: TracedRound, nodes: Iterable[int]) -> list[int]:
    """Nodes by their scores at the end of the round, the best first; of equals the older."""
    scores = round.record.nodes.score
    return sorted(nodes, key=lambda node: (scores[node] is None, -(scores[node] or 0), node))


def surprise(round: TracedRound) -> int | None:
    """The first accepted node that was not its drafter's favourite at its place."""
    return next((node for node in round.path if siblings(round, node)[0] != node), None)


def overtaken(round: TracedRound) -> int | None:
    """The favourite beside the surprise."""
    node = surprise(round)
    return None if node is None else siblings(round, node)[0]


def changes(round: TracedRound) -> dict[int, tuple[int | None, int | None]]:
    """Scores before and after the last rescoring that changed a node, by node."""
    return {node: (before, after) for event in _events(round, Rescore)
            for node, before, after in zip(event.nodes, event.before, event.after, strict=True)}


def _riser(round: TracedRound) -> int | None:
    """The accepted node whose score rose most."""
    rose = {node: after - before for node, (before, after) in changes(round).items()
            if node in round.path and before is not None and after is not None and after > before}
    return max(rose, key=rose.__getitem__, default=None)


def _lost(round: TracedRound) -> int | None:
    """The first right token that was pruned."""
    return next((node for node in right_path(round) if round.fates[node] == "pruned"), None)


def _with_fate(round: TracedRound, fate: str) -> int | None:
    return next(iter(by_score(round, (node for node, one in enumerate(round.fates) if one == fate))), None)


NODES: dict[str, Callable[[TracedRound], int | None]] = {
    "root": lambda round: 0,
    "first drafted": lambda round: next((event.nodes[0] for event in _events(round, Expand) if event.nodes), None),
    "first accepted": lambda round: next(iter(round.path), None),
    "last accepted": lambda round: next(reversed(round.path), None),
    "best rejected": lambda round: _with_fate(round, "rejected"),
    "best unreached": lambda round: _with_fate(round, "unreached"),
    "surprise": surprise,
    "overtaken": overtaken,
    "lost": _lost,
    "riser": _riser,
    "first grafted": lambda round: min(grafts(timeline(round.record)), default=None),
    "first retrieved": lambda round: min(retrieved(timeline(round.record)).new, default=None),
}
"""What a node can be."""
