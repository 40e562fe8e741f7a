"""How often the drafter's first, second, ... choice is the right one: what Sequoia's trees are made for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from treegraft.trace import replay
from treegraft.trace.records import Expand, Round
from treegraft.trace.runs import Run


def acceptance_by_rank(runs: Iterable[Run], drafter: str = "") -> list[float]:
    """The share of drafted-for places where the child of each rank held the text's next token; empty for no places.

    A place is the root or an accepted node whose children `drafter` (its name; by default whichever) proposed; the
    ranks of a node's children are the order in which the drafter listed them, those that were pruned included. Record
    with a policy that drafts the same number of children for every node, best first, such as `eagle2`. A rank's share
    is taken over the places that had a child of that rank.
    """
    counts = np.zeros((2, 0), np.int64)
    for run in runs:
        wanted = {info.id for info in run.header.drafters if drafter in ("", info.name)}
        for record in run.records:
            for rank, width in placed(record, wanted):
                counts = np.pad(counts, ((0, 0), (0, max(0, width - counts.shape[1]))))
                counts[1, :width] += 1
                counts[0, rank: rank + 1] += rank < width
    return (counts[0] / counts[1]).tolist()


def placed(record: Round, drafters: set[int]) -> list[tuple[int, int]]:
    """For every node of the accepted walk that one of the drafters expanded: the rank of the text's next token among
    its children (their number where it is none of them), and how many children there are."""
    parent, token = record.nodes.parent, record.nodes.token
    expands = [event for event in record.events if isinstance(event, Expand) and event.drafter in drafters]
    children = {node: [] for event in expands for node in event.parents}
    for event in expands:
        for node in event.nodes:
            if parent[node] in children:
                children[parent[node]].append(token[node])
    outcome, (_, accept) = replay.outcome(record), replay.ending(record)
    found = []
    for node, following in zip([0, *accept.path], outcome.tokens[: outcome.taken], strict=False):
        offered = children.get(node)
        if offered:
            found.append((offered.index(following) if following in offered else len(offered), len(offered)))
    return found
