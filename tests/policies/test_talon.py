"""TALON: the threshold of every level, the budget that ends it, and that nothing is drafted in vain."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies.random_drafters import draft, grown, random_drafter
from tests.policies.scripted import Scripted
from treegraft.policies import Talon
from treegraft.trace.records import NATS


def test_worked_example():
    """Level 1: .6 .3 .09. Level 2: .36 .18 .18 are at least .4 x .36. Level 3: four pass, one finds room."""
    round = draft(Talon(budget=7, top_k=3, mu=0.4), Scripted(id=0))
    assert [len(event.nodes) for event in grown(round)] == [3, 3, 1]
    assert np.exp(round.tree.score[1:] / NATS).round(3).tolist() == [0.6, 0.3, 0.09, 0.36, 0.18, 0.18, 0.216]
    assert round.tree.parent.tolist() == [-1, 0, 0, 0, 1, 1, 2, 4]


@given(seed=st.integers(0, 2**32), budget=st.integers(1, 40), top_k=st.integers(1, 10), mu=st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_levels_keep_what_is_near_their_best_until_the_budget_is_spent(seed, budget, top_k, mu):
    drafter = random_drafter(seed)
    round = draft(Talon(budget=budget, top_k=top_k, mu=mu), drafter)
    tree, left = round.tree, budget
    frontier = [0]
    for event in grown(round):
        assert event.parents == frontier
        _, logprobs = drafter.best(tree, np.array(frontier), top_k)
        offered = np.sort((tree.score[frontier][:, None] + logprobs).ravel())[::-1]
        least = offered[0] + math.log(mu) * NATS if mu and event.layer > 1 else -math.inf
        passing = offered[offered >= least]
        assert sorted(event.scores, reverse=True) == passing[:left].tolist()
        frontier, left = event.nodes, left - len(event.nodes)
    assert left == 0
    assert round.kept.tolist() == list(range(budget + 1))
