"""How far the right tokens reached into a draft tree: what a round could have accepted, had it kept and tried the best.

The right tokens of a round are those that the run's text has after the round's root, as it was recorded: at temperature
0 the target's favourites, else the tokens that were drawn. A tree holds at most one path that spells them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from treegraft.trace.replay import ending

if TYPE_CHECKING:
    from treegraft.trace.runs import Run, TracedRound


@dataclass(frozen=True)
class Reach:
    """The longest right path from a round's root, in tokens (the root not counted), within

    `verified`: the nodes that were sent to the target; `grown`: all nodes, pruned ones included; `alone`, by drafter
    id: the nodes that this drafter proposed, first or again. A right token that a drafter was not asked for (it would
    have followed another's token, say) does not count for it."""

    verified: int
    grown: int
    alone: dict[int, int]


def reach(round: TracedRound) -> Reach:
    """How far the right tokens reach into the tree of `round`. The text's end bounds all of it."""
    nodes, path = round.record.nodes, right_path(round)
    alone = {drafter: _within(path, {node for node in path if nodes.proposers[node] >> drafter & 1})
             for drafter in sorted(set(nodes.origin) - {-1})}
    return Reach(verified=_within(path, set(ending(round.record)[0].order)), grown=len(path), alone=alone)


def right_path(round: TracedRound) -> list[int]:
    """The nodes that spell the right tokens, from the root (left out) on; nodes are older than their children."""
    nodes, text = round.record.nodes, following(round.run, round.index)
    path, last, token = [], 0, next(text, None)
    for node in range(1, len(nodes.token)):
        if nodes.parent[node] == last and nodes.token[node] == token:
            path.append(node)
            last, token = node, next(text, None)
    return path


def following(run: Run, round: int) -> Iterator[int]:
    """The tokens of the text after the root of a round; later rounds are read when they are asked for."""
    for number in range(round, len(run.rounds)):
        outcome = run.rounds[number].outcome
        yield from outcome.tokens[: outcome.taken]


def _within(path: list[int], nodes: Collection[int]) -> int:
    return sum(1 for _ in takewhile(nodes.__contains__, path))
