"""Calibration of drafters: the probability that a drafter gave a node against how often the target accepted it.

Counted are judged nodes alone (see `analysis.reached`): what was pruned or not reached got no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treegraft.analysis.reached import NodeRow, Place

BINS = 10
FEWEST = 20
"""Nodes in a bin, so that its share means something; fewer bins are made where there are too few nodes."""


@dataclass(frozen=True)
class Bin:
    """Nodes whose q lies between `low` and `high`: their number, how many were accepted, and the means of q and p."""

    low: float
    high: float
    count: int
    accepted: int
    q: float
    p: float
    places: list[Place]

    @property
    def share(self) -> float:
        return self.accepted / self.count


@dataclass(frozen=True)
class Reliability:
    """One drafter's bins in order of q. `count` judged nodes had a q, `without` of those that it proposed first had
    none."""

    drafter: str
    bins: list[Bin]
    count: int
    without: int

    @property
    def error(self) -> float:
        """Expected calibration error: the mean over nodes of how far the accepted share of their bin is from its q."""
        return sum(one.count * abs(one.share - one.q) for one in self.bins) / self.count

    @property
    def q(self) -> float:
        return sum(one.count * one.q for one in self.bins) / self.count

    @property
    def share(self) -> float:
        return sum(one.accepted for one in self.bins) / self.count


def reliability(nodes: Sequence[NodeRow], bins: int = BINS) -> list[Reliability]:
    """One `Reliability` for each drafter that gave probabilities, in order of appearance."""
    rows: dict[str, list[NodeRow]] = {}
    without: dict[str, int] = {}
    for node in nodes:
        for drafter in node.q:
            rows.setdefault(drafter, []).append(node)
        if node.origin not in node.q:
            without[node.origin] = without.get(node.origin, 0) + 1
    return [Reliability(drafter, _bins(drafter, mine, bins), len(mine), without.get(drafter, 0))
            for drafter, mine in rows.items()]


def _bins(drafter: str, nodes: list[NodeRow], bins: int) -> list[Bin]:
    """Bins of nearly equal counts; nodes of the same q share a bin."""
    nodes = sorted(nodes, key=lambda node: node.q[drafter])
    q = np.array([node.q[drafter] for node in nodes])
    wanted = max(1, min(bins, len(nodes) // FEWEST))
    cuts = np.searchsorted(q, q[[len(nodes) * place // wanted for place in range(1, wanted)]], "left")
    edges = sorted({0, *cuts.tolist(), len(nodes)})
    return [_bin(nodes[low:high], q[low:high]) for low, high in pairwise(edges)]


def _bin(nodes: list[NodeRow], q: np.ndarray) -> Bin:
    return Bin(float(q[0]), float(q[-1]), len(nodes), sum(node.accepted for node in nodes), float(q.mean()),
               float(np.mean([node.p for node in nodes])), list(dict.fromkeys(node.place for node in nodes)))
