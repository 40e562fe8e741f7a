"""Rounds and nodes as pandas tables, and a tree as a networkx graph.

Scores and log-probabilities are in nats here (floats; minus infinity is `-inf`, unknown is NaN), times in microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from treegraft.trace.records import NATS, TARGET, Decide, Event, Expand, Gate, Graft, Learn, Logprob, Rescore
from treegraft.trace.replay import accepted, ending, expected

if TYPE_CHECKING:
    import networkx
    import pandas

    from treegraft.trace.runs import Run, TracedRound

PHASES = ("draft", "verify", "accept", "commit", "total")
UNBORN = -1
"""`event` of the root, which no event made."""


def rounds_frame(runs: Iterable[Run]) -> pandas.DataFrame:
    """One row a round.

    `run`, `group`, `prompt` and `turn` say where it belongs, `round` its number in the run and `context` its length up
    to the root. `nodes` were drafted, `kept` of them verified, `accepted` of those joined the text (root and bonus not
    counted); `depth` is that of the verified tree. `calls` counts decisions to call the strong drafter, `grafted` nodes
    that continue a branch of another drafter, `rescored` changes of scores by calls. `stage` names what followed from
    the gate that ended drafting, empty where none did; `retrieved` counts the nodes that took the place of drafted
    ones, `merged` those of them that had been drafted, too, `shortfall` slots that stayed empty, and `learned` the rows
    that drafters changed after the round. `rule` accepted, and `expected` is the accepted length that the recorded
    probabilities let expect (NaN where they were not recorded). `bonus` is a token id, `new_tokens` and `discarded`
    count path and bonus before and after the end of the text. `<phase>_us` are wall times; for each model (`target`,
    `drafter0`, ...) there are `<model>_forwards`, `<model>_tokens`, `<model>_us` and the cached tokens `<model>_kv`.
    """
    import pandas

    rows = [round_row(number, round) for number, run in enumerate(runs) for round in run.rounds]
    return pandas.DataFrame(rows, columns=None if rows else ["run", "round"])


def round_row(number: int, round: TracedRound) -> dict[str, Any]:
    record, header = round.record, round.run.header
    verify, accept = ending(record)
    depth = depths(record.nodes.parent)
    row = {
        "run": number, "group": header.group, "prompt": header.index, "turn": header.turn, "round": record.index,
        "context": record.context, "root": record.root, "nodes": len(depth) - 1, "kept": len(verify.order) - 1,
        "depth": max(depth[node] for node in verify.order), **stage_counts(record.events),
        "accepted": accepted(accept), "rule": accept.rule, "expected": (expected(record) or [math.nan])[0],
        "bonus": accept.bonus,
        "new_tokens": len(accept.path) + 1 - accept.discarded, "discarded": accept.discarded, "note": record.note}
    row |= {f"{phase}_us": record.times.get(phase, math.nan) for phase in PHASES}
    for model in (TARGET, *(drafter.id for drafter in header.drafters)):
        name = model_name(model)
        passes = [forward for forward in record.forwards if forward.model == model]
        row |= {f"{name}_forwards": len(passes), f"{name}_tokens": sum(one.tokens for one in passes),
                f"{name}_us": sum(one.microseconds for one in passes), f"{name}_kv": record.kv.get(model, math.nan)}
    return row


def stage_counts(events: Iterable[Event]) -> dict[str, int | str]:
    """How often a round called, grafted, rescored, retrieved and learned, and the stage in which a gate ended it."""
    names = ("calls", "grafted", "rescored", "retrieved", "merged", "shortfall", "learned")
    counts: dict[str, Any] = {"stage": "", **dict.fromkeys(names, 0)}
    for event in events:
        if isinstance(event, Decide):
            counts["calls"] += event.call
        elif isinstance(event, Expand):
            counts["grafted"] += len(event.grafted)
        elif isinstance(event, Rescore):
            counts["rescored"] += len(event.nodes)
        elif isinstance(event, Gate) and event.stop:
            counts["stage"] = event.stage
        elif isinstance(event, Graft):
            counts["retrieved"] += len(event.nodes)
            counts["merged"] += len(event.merged)
            counts["shortfall"] += event.shortfall
        elif isinstance(event, Learn):
            counts["learned"] += len(event.tokens)
    return counts


def nodes_frame(runs: Iterable[Run]) -> pandas.DataFrame:
    """One row a node, the root (`node` 0) included.

    `run` and `round` say where it belongs; `token` is its id and `piece` its text; `parent` is a node (-1 for the
    root), `depth` 0 for the root; `origin` the drafter that proposed it first (-1 for the root), `proposers` the bit
    set of all; `event` the place of the event that made it (-1 for the root). `score` is cumulative, in nats, and
    `first_score` what it was when the node was drafted; `grafted` nodes continue a branch of another drafter, `kept`
    nodes were verified; `fate` is one of `replay.FATES`; `target_logprob` is the target's, after the parent, in nats;
    `match` is the length of the copied span's match and `source` its place in the context, for drafters that copy;
    `rank` is the place in the row of the parent's token (0 is the best), for drafters that rank; `retrieved` nodes took
    the place of drafted ones, or had been drafted and were found again. Of a node that the acceptance rule tried, last,
    `tried_p` is its log-probability in what was then left of the target's distribution, `tried_q` that in the
    drafter's, `u` the random number (or the threshold), else all are NaN; `chance` is that of being accepted once its
    parent is, and `expected` how many tokens the rule then accepts below it on average, NaN where not recorded.
    """
    import pandas

    columns: dict[str, list[Any]] = {}
    for number, run in enumerate(runs):
        for round in run.rounds:
            part = node_columns(round)
            size = len(part["node"])
            for name, values in {"run": [number] * size, "round": [round.index] * size, **part}.items():
                columns.setdefault(name, []).extend(values)
    return pandas.DataFrame(columns or {"run": [], "round": [], "node": []})


def node_columns(round: TracedRound) -> dict[str, list[Any]]:
    """The columns of `nodes_frame` for one round, by name."""
    record, pieces = round.record, round.run.pieces
    nodes, (verify, accept) = record.nodes, ending(record)
    size = len(nodes.token)
    event, match, source, rank = ([unknown] * size for unknown in (UNBORN, math.nan, math.nan, math.nan))
    first, grafted, retrieved = list(nodes.score), [False] * size, [False] * size
    for place, made in enumerate(record.events):
        if isinstance(made, Expand):
            for node, score in zip(made.nodes, made.scores, strict=True):
                first[node] = score
            for node in made.grafted:
                grafted[node] = True
            for column, values in ((event, [place] * len(made.nodes)), (match, made.match), (source, made.source),
                                   (rank, made.rank)):
                for node, value in zip(made.nodes, values or [], strict=False):
                    column[node] = math.nan if value is None else value
        elif isinstance(made, Graft):
            for node in made.nodes:
                retrieved[node] = True
    target = dict(zip(verify.order, verify.logprob, strict=True))
    tried = {child.node: child for child in accept.tried}
    chances, lengths = (dict(zip(verify.order, column, strict=False))
                        for column in (accept.chances, expected(record)))
    return {
        "node": list(range(size)), "token": nodes.token, "piece": [piece_text(pieces, token) for token in nodes.token],
        "parent": nodes.parent, "depth": depths(nodes.parent), "origin": nodes.origin, "proposers": nodes.proposers,
        "event": event, "score": [nats(score) for score in nodes.score],
        "first_score": [nats(score) for score in first], "grafted": grafted,
        "kept": [node in target for node in range(size)], "fate": round.fates,
        "target_logprob": [nats(target[node]) if node and node in target else math.nan for node in range(size)],
        "match": match, "source": source, "rank": rank, "retrieved": retrieved,
        "tried_p": [nats(tried[node].p) if node in tried else math.nan for node in range(size)],
        **{name: [_known(getattr(tried.get(node), field, None), scale) for node in range(size)]
           for name, field, scale in (("tried_q", "q", NATS), ("u", "u", 1))},
        "chance": [chances.get(node, math.nan) for node in range(size)],
        "expected": [lengths.get(node, math.nan) for node in range(size)]}


def graph(round: TracedRound) -> networkx.DiGraph:
    """The tree of a round, edges from parent to child; nodes carry the columns of `nodes_frame` as attributes."""
    import networkx

    columns = node_columns(round)
    tree = networkx.DiGraph(prompt=round.run.header.index, round=round.index, context=round.record.context)
    for node, *values in zip(*columns.values(), strict=True):
        tree.add_node(node, **dict(zip(list(columns)[1:], values, strict=True)))
    tree.add_edges_from((parent, node) for node, parent in enumerate(columns["parent"]) if node)
    return tree


def _known(value: float | None, scale: float) -> float:
    return math.nan if value is None else value / scale


def nats(units: Logprob) -> float:
    return -math.inf if units is None else units / NATS


def piece_text(pieces: dict[int, bytes], token: int) -> str:
    """The text of a token alone, with U+FFFD for what is missing or no UTF-8."""
    return pieces.get(token, b"\xff").decode(errors="replace")


def depths(parent: list[int]) -> list[int]:
    """Depth of each node."""
    found = [0]
    for above in parent[1:]:
        found.append(found[above] + 1)
    return found


def model_name(model: int) -> str:
    return "target" if model == TARGET else f"drafter{model}"
