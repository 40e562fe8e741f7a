"""Every node is drawn or inside a stub, and stubs hold pruned nodes alone."""

from __future__ import annotations

from hypothesis import given

from tests.strategies import runs
from treegraft.view.arrange import FAN, arrange
from treegraft.view.explain import Explainer


def arranged(round):
    explain = Explainer(round)
    kept = [fate != "pruned" for fate in round.fates]
    return explain, kept, arrange(round.record.nodes.parent, kept, explain.rank, explain.tip)


@given(runs(min_rounds=1))
def test_nodes_are_drawn_or_inside_one_stub(run):
    for round in run.rounds:
        _, kept, drawn = arranged(round)
        inside = [node for stub in drawn.stubs for node in stub.nodes]
        assert len(inside) == len(set(inside))
        for node, row in enumerate(drawn.rows):
            assert (row is None) == (node in inside)
            assert row is not None or not kept[node]


@given(runs(min_rounds=1))
def test_stubs_count_everything_below(run):
    for round in run.rounds:
        _, _, drawn = arranged(round)
        parent = round.record.nodes.parent
        for stub in drawn.stubs:
            below = set(stub.nodes)
            for node in range(len(parent)):
                if parent[node] in below:
                    below.add(node)
            assert stub.count == len(below)
            assert stub.row is None or stub.count >= FAN
            assert (stub.row is None) == (drawn.rows[stub.parent] is None)


@given(runs(min_rounds=1))
def test_what_was_accepted_stands_in_one_row_with_the_bonus(run):
    for round in run.rounds:
        explain, _, drawn = arranged(round)
        assert {drawn.rows[node] for node in (0, *explain.accept.path)} == {drawn.bonus_row}


def test_a_fan_by_hand():
    # The root has one kept child (1) and four pruned ones, the best of them (3) with a child of its own.
    parent, rank = [-1, 0, 0, 0, 0, 0, 3], [0, 1, 5, 2, 4, 3, 6]
    drawn = arrange(parent, [True, True, False, False, False, False, False], rank, tip=1)
    outer, inner = drawn.stubs
    assert (outer.parent, outer.nodes, outer.count, outer.row) == (0, [3, 5, 4, 2], 5, 100)
    assert (inner.parent, inner.nodes, inner.count, inner.row) == (3, [6], 1, None)
    assert drawn.rows == [0, 0, None, None, None, None, None]
    assert drawn.bonus_row == 0


def test_two_pruned_tokens_are_drawn_one_by_one():
    drawn = arrange([-1, 0, 0, 0], [True, True, False, False], [0, 1, 2, 3], tip=0)
    assert drawn.stubs == []
    assert drawn.rows[1:] == [100, 200, 300]
    assert drawn.bonus_row == 0
