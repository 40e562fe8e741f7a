"""Drafting at random: a fixed shape whose children are drawn from the drafter's distribution.

How many children a node gets must not depend on what is drawn, or the output would no longer be distributed as the
target's. So drawn trees have fixed shapes, nothing is pruned by score, and where the context ends the shape itself is
cut.
"""

from __future__ import annotations

import numpy as np

from treegraft.drafters.base import Growth, ScoringDrafter
from treegraft.policies.base import Round
from treegraft.policies.templates import Template
from treegraft.settings import SettingError
from treegraft.trace.records import NATS
from treegraft.tree import ROOT, path_scores
from treegraft.verify import Draws

CHOICES = ("best", "iid", "distinct")
DRAFTING = ("Children are the drafter's best tokens, or drawn from its distribution: independently (iid), or without "
            "replacement (distinct). Drawing needs a temperature above 0.")
"""The setting `drafting` of policies with a fixed shape."""


def draw_along(round: Round, shape: Template, replacement: bool) -> None:
    """Fill the shape level by level: the children of a node are as many draws from the drafter's distribution.

    A draw that repeats a sibling's is no node of its own, and nothing is drafted below its place. Errors:
    `SettingError` where the target does not sample.
    """
    if round.sampler is None:
        raise SettingError("drafting at random needs a temperature above 0, and this run decodes greedily; set "
                           "drafting=best.")
    size = round.clip(shape.size, shape.size)
    parent, depth = shape.parent[: size + 1], shape.depth[: size + 1]
    node = np.full(len(parent), -1)
    node[ROOT] = ROOT
    for layer in range(1, int(depth.max()) + 1):
        places = np.flatnonzero((depth == layer) & (node[parent] >= 0))
        above, counts = np.unique(parent[places], return_counts=True)
        drawn = draw(round, round.drafters[0], node[above], counts, layer, replacement)
        if not drawn:
            break
        for place, nodes in zip(above.tolist(), drawn, strict=True):
            children = places[parent[places] == place]
            node[children[: len(nodes)]] = nodes
    round.keep(np.arange(round.tree.size), shape.size, "all drawn nodes")


def draw(round: Round, drafter: ScoringDrafter, parents: np.ndarray, counts: np.ndarray, layer: int,
         replacement: bool) -> list[np.ndarray]:
    """One drafter forward: `counts` draws below each of the nodes `parents`, written into the round.

    Returns the node of every draw, -1 for one that repeats a sibling's; nothing at the end of the drafter's context.
    """
    limit = drafter.limits(round.tree, parents) if len(parents) else ""
    if limit or len(parents) == 0:
        round.note = round.note or limit
        return []
    tree, before = round.tree, round.tree.size
    drawn = [Draws(draws.tokens[:count], draws.q, replacement) for draws, count in zip(
        drafter.draw(tree, parents, int(counts.max()), round.sampler, replacement), counts.tolist(), strict=True)]
    above = np.repeat(parents, [len(draws.tokens) for draws in drawn])
    tokens = np.concatenate([draws.tokens for draws in drawn])
    logprobs = np.rint(np.log(np.concatenate([draws.q[draws.tokens] for draws in drawn])) * NATS).astype(np.int64)
    first = np.sort(np.unique(above << 32 | tokens, return_index=True)[1])
    nodes = np.full(len(tokens), -1)
    nodes[first] = tree.add(above[first], tokens[first], path_scores(tree.score[above], logprobs)[first], drafter.id)
    round.draws.update(zip(parents.tolist(), drawn, strict=True))
    new = np.arange(before, tree.size)
    round.grew(drafter, parents, layer, Growth(created=new, candidates=new, merged=new[:0],
                                               match=np.zeros(len(new), np.int64)))
    return np.split(nodes, np.cumsum([len(draws.tokens) for draws in drawn])[:-1])
