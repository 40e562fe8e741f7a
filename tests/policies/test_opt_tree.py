"""OPT-Tree: no tree of its size expects more, and it stops where a layer adds too little."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies.random_drafters import draft, grown, most_expected, products, random_chances, random_drafter
from tests.policies.scripted import Scripted
from treegraft.policies import OptTree
from treegraft.policies.opt_tree import expected_acceptance
from treegraft.trace.records import NATS, Gate


def expected(round) -> float:
    return float(np.exp(round.tree.score[round.kept[1:]] / NATS).sum())


def test_worked_example():
    """Layer 1: .6 .3 .09, of which three nodes expect .99. Layer 2 has .36 .18 .18: now .6 .36 .3 expect 1.26."""
    round = draft(OptTree(budget=3, threshold=0.3, depth=9), Scripted(id=0))
    assert [len(event.nodes) for event in grown(round)] == [3, 3]
    first, second = (event for event in round.events if type(event) is Gate)
    assert (first.layer, first.value, first.stop) == (1, pytest.approx(0.99, abs=1e-4), False)
    assert (second.layer, second.value, second.stop) == (2, pytest.approx(0.27, abs=1e-4), True)
    assert (second.measure, second.threshold) == ("expected gain", 0.3)
    assert np.exp(round.tree.score[round.kept[1:]] / NATS).round(3).tolist() == [0.6, 0.3, 0.36]


@given(seed=st.integers(0, 2**32), budget=st.integers(1, 6), depth=st.integers(1, 4), sharpness=st.floats(0.0, 3.0))
@settings(max_examples=25, deadline=None)
def test_no_tree_of_the_size_expects_more(seed, budget, depth, sharpness):
    round = draft(OptTree(budget=budget, threshold=0.0, depth=depth), random_drafter(seed, sharpness))
    assert expected(round) == pytest.approx(most_expected(random_chances(seed, sharpness), budget, depth), abs=1e-3)


@given(seed=st.integers(0, 2**32), budget=st.integers(1, 40), threshold=st.floats(0.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_drafting_goes_on_while_the_gain_is_above_the_threshold(seed, budget, threshold):
    round = draft(OptTree(budget=budget, threshold=threshold, depth=4), random_drafter(seed))
    gates = [event for event in round.events if type(event) is Gate]
    best = [0.0, *(products(random_chances(seed), depth)[:budget].sum() for depth in range(1, 5))]
    assert [gate.value for gate in gates] == pytest.approx(np.diff(best)[: len(gates)].tolist(), abs=2e-3)
    assert all(gate.stop == (gate.value <= threshold) for gate in gates)
    assert all(not gate.stop for gate in gates[:-1])
    assert len(grown(round)) == (len(gates) if gates[-1].stop else 4)
    assert expected(round) == pytest.approx(expected_acceptance(round.tree, budget))
