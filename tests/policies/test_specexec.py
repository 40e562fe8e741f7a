"""SpecExec: the best nodes of all that could be drafted, and an end where no child is better than the worst of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies.random_drafters import draft, grown, products, random_chances, random_drafter
from tests.policies.scripted import Scripted
from treegraft.policies import SpecExec
from treegraft.trace.records import NATS, Gate


def gates(round) -> list[Gate]:
    return [event for event in round.events if type(event) is Gate]


def test_worked_example():
    """With .95 a level: .57 .285; then .325 joins; then .185 is not better than .325."""
    round = draft(SpecExec(budget=2, width=2), Scripted(id=0))
    assert [len(event.nodes) for event in grown(round)] == [2, 1, 0]
    assert [event.parents for event in grown(round)] == [[0], [1, 2], [3]]
    assert round.kept.tolist() == [0, 1, 3]
    assert [(gate.layer, gate.stop) for gate in gates(round)] == [(2, False), (3, True)]
    best, worst = np.exp([gates(round)[1].value, gates(round)[1].threshold])
    assert (best, worst) == (pytest.approx(0.6**3 * 0.95**3, abs=1e-4), pytest.approx(0.36 * 0.95**2, abs=1e-4))


@given(seed=st.integers(0, 2**32), budget=st.integers(1, 25), depth=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_the_best_nodes_of_all_are_kept(seed, budget, depth):
    round = draft(SpecExec(budget=budget, width=10, depth=depth), random_drafter(seed))
    best = products(random_chances(seed), depth, decay=0.95)[:budget]
    assert round.tree.room > 0
    assert np.sort(np.exp(round.tree.score[round.kept[1:]] / NATS))[::-1] == pytest.approx(best, rel=1e-3)


@given(seed=st.integers(0, 2**32), budget=st.integers(1, 25), beams=st.integers(1, 4), width=st.integers(1, 10))
@settings(max_examples=40, deadline=None)
def test_a_layer_expands_the_best_nodes_that_were_not_expanded(seed, budget, beams, width):
    round = draft(SpecExec(budget=budget, beams=beams, width=width), random_drafter(seed, 1.0))
    scores, there, expanded = round.tree.score.tolist(), 1, [0]
    for event in grown(round):
        kept = sorted(range(1, there), key=lambda node: (-scores[node], node))[:budget]
        unexpanded = [node for node in kept if node not in expanded]
        assert event.parents == (unexpanded[:beams] if event.layer > 1 else [0])
        expanded += event.parents
        there += len(event.nodes)
    assert all(gate.stop == (gate.value <= gate.threshold) for gate in gates(round))
    assert all(not gate.stop for gate in gates(round)[:-1])


def test_a_tree_without_room_ends_drafting():
    flat = Scripted(id=0, probabilities=lambda token: [0.1] * 10)
    policy = SpecExec(budget=1, width=10, depth=9)
    round = draft(policy, flat)
    assert round.tree.size == policy.capacity == 5
    assert len(grown(round)) == 1
    assert grown(round)[0].merged == []
