"""DDD is EAGLE-2 until the beam's mass is too small at a checked layer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies.random_drafters import draft, grown, random_drafter
from tests.policies.scripted import Scripted
from treegraft.policies import Ddd, Eagle2
from treegraft.settings import SettingError
from treegraft.trace.records import Gate


def test_worked_example():
    """Beams of two: .6 .3, then .36 .18 (mass .54), then .216 and one of .108 (mass .324)."""
    round = draft(Ddd(top_k=2, depth=9, checks="2,3,4", threshold=0.4), Scripted(id=0))
    gates = [event for event in round.events if type(event) is Gate]
    assert [(gate.layer, gate.stop) for gate in gates] == [(2, False), (3, True)]
    assert [gate.value for gate in gates] == pytest.approx([0.54, 0.324], abs=1e-4)
    assert {(gate.measure, gate.threshold) for gate in gates} == {("beam mass", 0.4)}
    assert len(grown(round)) == 3


@given(seed=st.integers(0, 2**32), top_k=st.integers(1, 5), depth=st.integers(1, 5), threshold=st.floats(0.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_the_tree_is_that_of_eagle2_with_fewer_layers(seed, top_k, depth, threshold):
    round = draft(Ddd(top_k=top_k, depth=depth, threshold=threshold, checks="1,3"), random_drafter(seed))
    layers = len(grown(round))
    same = draft(Eagle2(top_k=top_k, depth=layers), random_drafter(seed))
    assert round.tree.token.tolist() == same.tree.token.tolist()
    assert round.kept.tolist() == same.kept.tolist()
    assert layers == depth or round.events[-2].stop


@pytest.mark.parametrize("checks", ["", "5;7", "five", "5,", "-1", "1,999"])
def test_checks_that_are_no_layers_are_refused(checks):
    with pytest.raises(SettingError, match=r"checks was .* such as 5,7,9"):
        Ddd(checks=checks)
