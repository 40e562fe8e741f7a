"""What of a round's tree is drawn, and on which row: nodes, stubs for fans of pruned tokens, and the target's bonus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treegraft.view.layout import tidy_rows

FAN = 3
"""Pruned tokens below one node that are drawn as a stub, if there are at least this many."""

ROW_UNITS = 100
"""Rows are given as integers, in hundredths of a row."""


@dataclass
class Stub:
    """Pruned children `nodes` of `parent`, best first, drawn as one; `count` includes everything below them.

    `row` is None while the parent itself is inside another stub."""

    parent: int
    nodes: list[int]
    count: int
    row: int | None = None


@dataclass
class Arrangement:
    """The row of every node, None for one that is inside a stub; the stubs; the row of the bonus."""

    rows: list[int | None]
    stubs: list[Stub]
    bonus_row: int


def arrange(parent: Sequence[int], kept: Sequence[bool], rank: Sequence[int], tip: int) -> Arrangement:
    """Arrange the whole grown tree, so that nothing moves while its story is told.

    `kept` says which nodes went to the target, `rank` orders siblings (0 for the root), `tip` is the node that the
    target's bonus follows: what was accepted, and the bonus, stand in one row.
    """
    stubs, hidden = _find_stubs(parent, kept, rank)
    drawn = [node for node in range(len(parent)) if not hidden[node]]
    place = {node: number for number, node in enumerate(drawn)}
    open_stubs = [stub for stub in stubs if not hidden[stub.parent]]
    parents = [-1 if node == 0 else place[parent[node]] for node in drawn]
    parents += [place[stub.parent] for stub in open_stubs] + [place[tip]]
    order = [rank[node] for node in drawn] + [len(parent)] * len(open_stubs) + [0]
    rows = [round(row * ROW_UNITS) for row in tidy_rows(parents, order, _path(parents))]
    for stub, row in zip(open_stubs, rows[len(drawn):], strict=False):
        stub.row = row
    return Arrangement([None if hidden[node] else rows[place[node]] for node in range(len(parent))], stubs,
                       rows[-1])


def _path(parent: Sequence[int]) -> set[int]:
    """The last node and those above it."""
    path, node = set(), len(parent) - 1
    while node >= 0:
        path.add(node)
        node = parent[node]
    return path


def _find_stubs(parent: Sequence[int], kept: Sequence[bool], rank: Sequence[int]) -> tuple[list[Stub], list[bool]]:
    """The stubs, outer before inner, and for every node whether it is inside one."""
    size = [1] * len(parent)
    fans: dict[int, list[int]] = {}
    for node in range(len(parent) - 1, 0, -1):
        size[parent[node]] += size[node]
        if not kept[node]:
            fans.setdefault(parent[node], []).append(node)
    hidden = [False] * len(parent)
    stubs = []
    for node in sorted(fans):
        count = sum(size[child] for child in fans[node])
        if hidden[node] or count >= FAN:
            for child in fans[node]:
                hidden[child] = True
            stubs.append(Stub(node, sorted(fans[node], key=rank.__getitem__), count))
    return stubs, hidden
