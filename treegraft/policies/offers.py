"""What a drafter offers below some nodes, before any of it is in the tree: for policies that choose first.

A drafter's `grow` puts all its proposals into the tree. Policies that ask for many and keep few (large trees, fixed
shapes) ask here, choose, and take what they chose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.drafters.base import Growth, ScoringDrafter
from treegraft.policies.base import Round
from treegraft.tree import path_scores


@dataclass(frozen=True)
class Offers:
    """Children that a drafter offers below `parents`: the first `width` are those of the first parent, best first.

    `parent` (node), `token` and `score` (of the whole path, in 1e-5 nats) have one entry an offer.
    """

    parents: np.ndarray
    parent: np.ndarray
    token: np.ndarray
    score: np.ndarray

    def __len__(self) -> int:
        return len(self.token)

    @property
    def width(self) -> int:
        return len(self) // max(1, len(self.parents))

    def best(self, k: int) -> np.ndarray:
        """Places of the k offers with the best scores, best first; of equals the one offered first."""
        return np.argsort(-self.score, kind="stable")[:k]


def ask(round: Round, drafter: ScoringDrafter, parents: np.ndarray, k: int) -> Offers:
    """One drafter forward: the k best next tokens of each parent (fewer where it knows fewer).

    Nothing is offered where the drafter is at the end of its context; the round's note then says so.
    """
    tree = round.tree
    limit = drafter.limits(tree, parents)
    if limit:
        round.note = round.note or limit
        nothing = np.zeros(0, np.int64)
        return Offers(parents, nothing, nothing, nothing)
    tokens, logprobs = drafter.best(tree, parents, k)
    scores = path_scores(tree.score[parents][:, None], logprobs)
    return Offers(parents, np.repeat(parents, tokens.shape[1]), tokens.ravel(), scores.ravel())


def take(round: Round, drafter: ScoringDrafter, layer: int, offers: Offers, chosen: np.ndarray) -> np.ndarray:
    """Make nodes of the `chosen` offers (places), in that order, and write the layer down; returns the nodes.

    Those that find no room in the tree are left out.
    """
    tree = round.tree
    before = tree.size
    nodes = tree.add(offers.parent[chosen], offers.token[chosen], offers.score[chosen], drafter.id)
    nodes = nodes[nodes >= 0]
    round.grew(drafter, offers.parents, layer, Growth(
        created=np.arange(before, tree.size), candidates=nodes, merged=nodes[nodes < before],
        match=np.zeros(len(nodes), np.int64)))
    return nodes
