"""Scripted drafters with random probabilities, and the trees that their probabilities allow."""

from __future__ import annotations

import functools

import numpy as np

from tests.policies.scripted import TOKENS, Scripted
from treegraft.policies.base import Constants, Policy, Round
from treegraft.trace.records import Expand
from treegraft.tree import DraftTree


def random_chances(seed: int, sharpness: float = 2.0) -> np.ndarray:
    """The probabilities [token, next token] of ten tokens after each of them."""
    weights = np.exp(np.random.default_rng(seed).normal(scale=sharpness, size=(TOKENS, TOKENS)))
    return weights / weights.sum(1, keepdims=True)


def random_drafter(seed: int, sharpness: float = 2.0) -> Scripted:
    return Scripted(id=0, probabilities=random_chances(seed, sharpness).tolist().__getitem__)


def draft(policy: Policy, *drafters: Scripted, limit: int = 10_000, constants: Constants | None = None) -> Round:
    """One round of a policy whose root holds token 0."""
    round = Round(DraftTree(0, 1, policy.capacity), drafters, limit, constants or Constants())
    policy.draft(round)
    return round


def grown(round: Round) -> list[Expand]:
    return [event for event in round.events if type(event) is Expand]


def products(chances: np.ndarray, depth: int, decay: float = 1.0) -> np.ndarray:
    """The path products of all nodes down to `depth`, the greatest first."""
    level = chances[0] * decay
    found, tokens = [level], np.arange(TOKENS)
    for _ in range(depth - 1):
        level = (level[:, None] * chances[tokens] * decay).ravel()
        tokens = np.tile(np.arange(TOKENS), len(tokens))
        found.append(level)
    return np.sort(np.concatenate(found))[::-1]


def most_expected(chances: np.ndarray, budget: int, depth: int) -> float:
    """The greatest expected acceptance of any tree with up to `budget` nodes and `depth` levels: every way to share the
    nodes out among the children is tried."""

    @functools.cache
    def below(token: int, nodes: int, levels: int) -> float:
        if nodes == 0 or levels == 0:
            return 0.0
        best = [0.0] * (nodes + 1)
        for child in range(TOKENS):
            with_child = [chances[token, child] * (1 + below(child, own - 1, levels - 1)) if own else 0.0
                          for own in range(nodes + 1)]
            best = [max(best[total - own] + with_child[own] for own in range(total + 1)) for total in range(nodes + 1)]
        return best[nodes]

    return below(0, budget, depth)
