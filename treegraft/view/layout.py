"""A tidy tree layout: rows for nodes, no two neighbours of a layer closer than one row, parents centred on children,
and one branch that runs straight.

Contours are merged bottom-up as in Reingold and Tilford (1981): a subtree is known by its highest and lowest row in
each layer, and moves as one piece. Merging touches only the layers that two neighbours share, so the whole is linear.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

GAP = 1.0
"""Least distance in rows between two nodes of the same layer."""


def tidy_rows(parent: Sequence[int], order: Sequence[float], straight: Collection[int] = ()) -> list[float]:
    """The row of every node, 0 being the topmost.

    `parent[0]` is -1 and `parent[i] < i`. Children of one node are placed from top to bottom by ascending `order`, then
    by id. The nodes in `straight`, at most one a family, stand in their parents' row; other parents in the middle of
    their children. The result depends on nothing else, so the same tree always looks the same.
    """
    size = len(parent)
    children: list[list[int]] = [[] for _ in range(size)]
    for node in range(1, size):
        children[parent[node]].append(node)
    shift = [0.0] * size
    outline: list[_Outline | None] = [None] * size
    for node in reversed(range(size)):
        family = sorted(children[node], key=lambda child: order[child])
        outline[node] = _stack([outline[child] for child in family], family, shift, straight)
        for child in family:
            outline[child] = None
    return _absolute(parent, shift)


class _Outline:
    """Highest and lowest row of a subtree by layer, deepest layer first, relative to its top node plus `offset`."""

    __slots__ = ("high", "low", "offset")

    def __init__(self, high: list[float], low: list[float], offset: float = 0.0) -> None:
        self.high, self.low, self.offset = high, low, offset


def _stack(parts: list[_Outline], family: list[int], shift: list[float], straight: Collection[int]) -> _Outline:
    """Put subtrees below one another, write each child's row relative to its parent, and return the joint outline."""
    if not parts:
        return _Outline([0.0], [0.0])
    joint, last = parts[0], 0.0
    for part, child in zip(parts[1:], family[1:], strict=True):
        shared = min(len(joint.low), len(part.high))
        last = GAP + max(low - high for low, high in zip(joint.low[-shared:], part.high[-shared:], strict=True))
        last += joint.offset - part.offset
        shift[child] = last
        part.offset += last
        joint = _merge(joint, part, shared)
    own = next((shift[child] for child in family if child in straight), last / 2)
    for child in family:
        shift[child] -= own
    joint.high.append(own - joint.offset)
    joint.low.append(own - joint.offset)
    joint.offset -= own
    return joint


def _merge(upper: _Outline, lower: _Outline, shared: int) -> _Outline:
    """The outline of two neighbours, made by overwriting the shared layers of the deeper one."""
    delta = lower.offset - upper.offset
    if len(upper.low) >= len(lower.low):
        upper.low[-shared:] = [row + delta for row in lower.low[-shared:]]
        return upper
    lower.high[-shared:] = [row - delta for row in upper.high[-shared:]]
    return lower


def _absolute(parent: Sequence[int], shift: list[float]) -> list[float]:
    rows = [0.0] * len(parent)
    for node in range(1, len(parent)):
        rows[node] = rows[parent[node]] + shift[node]
    top = min(rows)
    return [row - top for row in rows]
