"""What the target judged: one row a round, and one row a node that it accepted or rejected.

A node is judged if it was verified and its parent was reached, which are the fates `accepted` and `rejected`. Nodes
below a rejected one (`unreached`), pruned nodes and accepted nodes after the end of the text (`discarded`) are not
counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from treegraft.analysis.metrics import Summary, drafter_names, name_of, summary, verified_depths
from treegraft.policies.specexec import DECAY
from treegraft.trace.records import NATS, Expand, Logprob, Rescore, Round
from treegraft.trace.replay import accepted, ending
from treegraft.trace.runs import Run

Place = tuple[int, int]
"""Number of the run among those that were read, and of the round in it."""


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One round: `position` is the place in the output of the first token that it added, `length` the depth of its
    verified tree, `times` microseconds by phase; `bonus` is a token and the one before it, None after the end."""

    place: Place
    position: int
    turn: int
    accepted: int
    length: int
    drafted: int
    times: dict[str, int]
    bonus: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One judged node: its `token`, that of its parent (`before`), and the drafter that proposed it first (`origin`).

    `p` is the target's probability of the token after its parent, `q` the probability that each drafter gave it last,
    by the drafter's name; drafters that gave none are left out."""

    place: Place
    token: int
    before: int
    origin: str
    accepted: bool
    p: float
    q: dict[str, float]


@dataclass
class Judged:
    """Some runs' summary and rows."""

    summary: Summary
    rounds: list[RoundRow] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)


def judged(runs: Iterable[Run]) -> Judged:
    """The summary and the rows of some runs, from one pass over their rounds."""
    runs = list(runs)
    rounds: list[RoundRow] = []
    nodes: list[NodeRow] = []

    def look(number: int, record: Round) -> None:
        place = number, record.index
        rounds.append(round_row(runs[number], record, place))
        nodes.extend(node_rows(runs[number], record, place))

    return Judged(summary(runs, look), rounds, nodes)


def round_row(run: Run, record: Round, place: Place) -> RoundRow:
    verify, accept = ending(record)
    depth = verified_depths(record.nodes.parent, verify.order)
    tip = record.nodes.token[accept.path[-1] if accept.path else 0]
    return RoundRow(
        place=place, position=record.context - len(run.header.prompt.tokens), turn=run.header.turn,
        accepted=accepted(accept), length=max(depth.values()), drafted=len(verify.order) - 1, times=record.times,
        bonus=None if accept.discarded else (accept.bonus, tip))


def node_rows(run: Run, record: Round, place: Place) -> list[NodeRow]:
    verify, accept = ending(record)
    parent, token, path = record.nodes.parent, record.nodes.token, accept.path
    reached, discarded = {0, *path}, set(path[accepted(accept):])
    names = drafter_names(run)
    mine = [place for place, node in enumerate(verify.order)
            if node and parent[node] in reached and node not in discarded]
    given = drafter_chances(record, {verify.order[place] for place in mine}, run.header.policy.name)
    return [NodeRow(
        place=place, token=token[node], before=token[parent[node]], origin=name_of(record.nodes.origin[node], names),
        accepted=node in reached, p=chance(verify.logprob[number]),
        q={name_of(drafter, names): q for drafter, q in given.get(node, {}).items()})
        for number, node in ((number, verify.order[number]) for number in mine)]


def chance(logprob: Logprob) -> float:
    """A probability from its logarithm as traces hold it; a trace may hold nonsense above zero."""
    return 0.0 if logprob is None else math.exp(min(logprob, 0) / NATS)


def drafter_chances(record: Round, nodes: set[int], policy: str = "") -> dict[int, dict[int, float]]:
    """The probability after its parent that each drafter gave a node last, by node and drafter id.

    A node's score minus its parent's is the logarithm of that, where a drafter scored it: when it proposed the node,
    raised its score or rescored the tree. `specexec` adds a discount to every score, which is taken out again."""
    discount = DECAY if policy == "specexec" else 0
    parent, score = record.nodes.parent, list(record.nodes.score)
    found: dict[int, dict[int, float]] = {}
    born = 1
    for event in record.events:
        if isinstance(event, Expand):
            changed, values = event.nodes + event.raised, event.scores + event.raised_scores
            born += len(event.nodes)
            scored = nodes.intersection(changed)
        elif isinstance(event, Rescore):
            changed, values = event.nodes, event.after
            scored = {node for node in nodes if node < born} - set(event.unreachable)
        else:
            continue
        for node, value in zip(changed, values, strict=True):
            score[node] = value
        for node in scored:
            below, above = score[node], score[parent[node]]
            if below is not None and above is not None and below - discount <= above:
                found.setdefault(node, {})[event.drafter] = chance(below - discount - above)
    return found
