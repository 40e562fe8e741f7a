"""The best shape of a tree for acceptance rates by rank: Sequoia's dynamic programme (arXiv 2402.12374, section 4).

`rates[r]` is the probability that the child of rank r is the accepted one, wherever its parent is. A tree with n nodes
then accepts, the bonus counted, the sum over all nodes (root included) of the product of the rates on their paths.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from treegraft.policies.templates import Path, Template, from_paths


@dataclass(frozen=True, eq=False)
class Table:
    """Expected tokens of the best trees: `value[d, n]` with n nodes, root included, none deeper than d (minus infinity
    where there is no such tree).

    `children[d, n]` is how many children the root of that tree has. The last of b children (at d, n) is the root of a
    subtree of `last[d, b, n]` nodes, and the rest is the best tree with b - 1 children.
    """

    value: np.ndarray
    children: np.ndarray
    last: np.ndarray

    def shape(self, depth: int, nodes: int) -> Template:
        """The best tree with so many nodes, root included, and layers."""
        ranks = self.last.shape[1] - 1
        return from_paths(self._paths(depth, nodes, ()), ranks)

    def _paths(self, depth: int, nodes: int, path: Path) -> list[Path]:
        found: list[Path] = []
        for child in range(int(self.children[depth, nodes]), 0, -1):
            size = int(self.last[depth, child, nodes])
            here = (*path, child - 1)
            found += [here, *self._paths(depth - 1, size, here)]
            nodes -= size
        return found


@functools.lru_cache(maxsize=8)
def best_trees(rates: tuple[float, ...], nodes: int, depth: int) -> Table:
    """The best trees with up to `nodes` nodes (root included) and `depth` layers below the root."""
    value = np.full((depth + 1, nodes + 1), -np.inf)
    value[:, 1] = 1.0
    children = np.zeros((depth + 1, nodes + 1), np.int64)
    last = np.zeros((depth + 1, len(rates) + 1, nodes + 1), np.int64)
    for below in range(1, depth + 1):
        tree = np.full(nodes + 1, -np.inf)
        tree[1] = 1.0
        for child, rate in enumerate(rates, start=1):
            tree, last[below, child] = joined(tree, rated(rate, value[below - 1]))
            better = tree > value[below]
            value[below, better], children[below, better] = tree[better], child
    return Table(value, children, last)


def joined(tree: np.ndarray, subtree: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best sums of `tree[n - s] + subtree[s]` for every n, and the s that gives each (the smallest of equals)."""
    sizes = np.arange(len(tree))
    left = sizes[:, None] - sizes
    sums = np.where(left > 0, tree[np.maximum(left, 0)] + subtree, -np.inf)
    best = sums.argmax(1)
    return sums[sizes, best], best


def rated(rate: float, subtree: np.ndarray) -> np.ndarray:
    """What subtrees are worth below a parent; impossible ones stay at minus infinity, even at a rate of 0."""
    return np.where(np.isfinite(subtree), rate * np.where(np.isfinite(subtree), subtree, 0.0), -np.inf)
