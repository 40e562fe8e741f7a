"""Templates: static trees of ranks, such as "the best next token, and after it the second best"."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from treegraft.settings import SettingError
from treegraft.tree import ROOT

RANKS = 8
"""Next tokens that a retriever knows after a token: the templates have no rank beyond these."""

MOST_NODES = 4096
"""Nodes of one template, the root left out."""

ENVELOPE = (8, 16, 14, 11, 8, 7, 6, 5, 5)
"""Nodes by depth (from 1) of the full retrieval envelope (arXiv 2605.20104); Graft's budget is `PAPER_BUDGET`."""

PAPER_BUDGET = 60

Path = tuple[int, ...]


@dataclass(frozen=True)
class Stage:
    """Where Graft stopped drafting: how many drafted nodes it then keeps of `PAPER_BUDGET`, and how many retrieved
    nodes by depth take the other places."""

    drafted: int
    levels: tuple[int, ...]


STAGES: Mapping[str, Stage] = MappingProxyType({
    "d5": Stage(40, (4, 3, 3, 2, 2, 2, 2, 1, 1)),
    "d1": Stage(24, (6, 7, 5, 4, 4, 3, 3, 2, 2)),
    "d0": Stage(8, (8, 10, 8, 6, 5, 4, 4, 4, 3)),
})
"""The stages of the paper, the smallest template first: each lies within the next one."""


@dataclass(frozen=True, eq=False)
class Template:
    """A static tree of ranks, numbered like a `DraftTree`: node 0 is the root (parent -1, rank -1, depth 0).

    `parent`, `rank` and `depth` are [size + 1]. Parents come before their children, and shallower nodes before deeper
    ones; rank 0 is the best next token after the parent's token.
    """

    parent: np.ndarray
    rank: np.ndarray
    depth: np.ndarray

    @property
    def size(self) -> int:
        """How many nodes there are, the root left out."""
        return len(self.parent) - 1

    @property
    def levels(self) -> tuple[int, ...]:
        """Nodes by depth, from 1."""
        return tuple(np.bincount(self.depth)[1:].tolist())

    @property
    def paths(self) -> list[Path]:
        """The ranks on the way to every node, the root's empty path first."""
        found: list[Path] = [()]
        for parent, rank in zip(self.parent[1:].tolist(), self.rank[1:].tolist(), strict=True):
            found.append((*found[parent], rank))
        return found


def from_paths(paths: Sequence[Sequence[int]], ranks: int = RANKS) -> Template:
    """The template with these rank paths, in any order; ranks go from 0 to `ranks` - 1.

    Errors: `SettingError` for a path that is empty, repeated, without its beginning among the others, or not of ranks.
    """
    if len(paths) > MOST_NODES:
        raise SettingError(f"the tree has {len(paths)} paths; allowed: {MOST_NODES}.")
    for path in paths:
        if not (isinstance(path, (list, tuple)) and path and all(type(rank) is int and 0 <= rank < ranks
                                                                 for rank in path)):
            raise SettingError(f"a path of the tree was {path!r}; write one or more ranks from 0 to {ranks - 1}, e.g. "
                               "[0, 0, 1].")
    known = sorted(map(tuple, paths), key=lambda path: (len(path), path))
    place = {(): ROOT} | {path: number for number, path in enumerate(known, start=1)}
    if len(place) <= len(known):
        repeated = next(one for one, after in itertools.pairwise(known) if one == after)
        raise SettingError(f"the tree has the path {list(repeated)} twice; give each once.")
    for path in known:
        if path[:-1] not in place:
            raise SettingError(f"the tree has the path {list(path)} but not {list(path[:-1])}, which it continues; "
                               "give that one too.")
    columns = ([place[path[:-1]] for path in known], [path[-1] for path in known], [len(path) for path in known])
    return Template(*(np.array([first, *column], np.int64) for first, column in zip((-1, -1, 0), columns, strict=True)))


def from_levels(levels: Sequence[int], inner: Sequence[Path] = (), ranks: int = RANKS) -> Template:
    """The template with `levels[d - 1]` nodes at depth d that holds the `inner` paths, too.

    Level by level the best children of the nodes chosen so far are taken. A path is as good as the product of its rank
    weights (rank + 1)^-1.3, so the smallest product of (rank + 1) comes first, whatever the exponent; then the
    path with fewer ranks other than 0, then the lexicographically smaller one. The paper prints the level sizes alone.

    Errors: `ValueError` for levels that have no room for the inner paths, or more nodes than ranks.
    """
    level: list[Path] = [()]
    chosen: list[Path] = []
    for depth, count in enumerate(levels, start=1):
        must = [path for path in inner if len(path) == depth]
        free = sorted({(*path, rank) for path in level for rank in range(ranks)} - set(must), key=by_goodness)
        if not len(must) <= count <= len(must) + len(free):
            raise ValueError(f"level {depth} has {count} nodes; allowed: {len(must)} to {len(must) + len(free)}")
        level = must + free[: count - len(must)]
        chosen += level
    return from_paths(chosen, ranks)


def by_goodness(path: Path) -> tuple:
    product = functools.reduce(lambda product, rank: product * (rank + 1), path, 1)
    return product, sum(rank > 0 for rank in path), path


def scaled(levels: Sequence[int], total: int, least: Sequence[int] = (), ranks: int = RANKS) -> tuple[int, ...]:
    """Level sizes in the proportions of `levels` that add up to `total`, none below those of `least`.

    Level 1 has at most `ranks` nodes and each later one `ranks` times those above it, so wide trees are deeper than
    their proportions. `total` must not be below the sum of `least`.
    """
    sizes = [*least, *[0] * (len(levels) - len(least))]
    wanted = [size * total / sum(levels) for size in levels]
    for _ in range(total - sum(sizes)):
        open_levels = [level for level, size in enumerate(sizes) if size < ranks * (sizes[level - 1] if level else 1)]
        level = max(open_levels, key=lambda level: (wanted[level] - sizes[level], -level))
        sizes[level] += 1
    return tuple(sizes)


@dataclass(frozen=True)
class Envelope:
    """All that Graft may retrieve in a round with a budget of K_max nodes.

    `order` are the nodes of `template`, root left out, such that the template of every stage is the beginning of it:
    `retrieved[stage]` nodes, beside `drafted[stage]` drafted ones; together they are K_max. Parents come before their
    children in it, too.
    """

    template: Template
    order: np.ndarray
    drafted: Mapping[str, int]
    retrieved: Mapping[str, int]

    def stage(self, name: str) -> Template:
        """The template of a stage."""
        paths = self.template.paths
        return from_paths([paths[node] for node in self.order[: self.retrieved[name]].tolist()])


@functools.cache
def envelope(budget: int) -> Envelope:
    """The paper's templates, scaled to a budget of `budget` nodes, which are the paper's own for `PAPER_BUDGET`."""
    drafted = {name: round(stage.drafted * budget / PAPER_BUDGET) for name, stage in STAGES.items()}
    retrieved = {name: budget - count for name, count in drafted.items()}
    sizes: tuple[int, ...] = ()
    nested: dict[Path, None] = {}
    most = max(budget, round(sum(ENVELOPE) * budget / PAPER_BUDGET))
    for levels, total in (*((stage.levels, retrieved[name]) for name, stage in STAGES.items()), (ENVELOPE, most)):
        sizes = scaled(levels, total, sizes)
        template = from_levels(sizes, tuple(nested))
        nested |= dict.fromkeys(template.paths[1:])
    place = {path: node for node, path in enumerate(template.paths)}
    return Envelope(template, np.array([place[path] for path in nested], np.int64), MappingProxyType(drafted),
                    MappingProxyType(retrieved))
