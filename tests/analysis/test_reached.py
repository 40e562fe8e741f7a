"""Judged nodes: those of a tree checked by hand, and the identities that tie them to the summary."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import make_run, runs
from tests.view.examples import AIR, BLUE, IS, SEA, SKY, SUN, THE, WAS, example, grafted, retrieved
from treegraft.analysis.metrics import summary
from treegraft.analysis.reached import drafter_chances, judged
from treegraft.policies.specexec import DECAY
from treegraft.trace.records import NATS


@settings(max_examples=50, deadline=None)
@given(st.lists(runs(), max_size=3))
def test_the_rows_add_up_to_the_summary(several):
    found = judged(several)
    assert found.summary == summary(several)
    assert len(found.rounds) == found.summary.rounds
    assert sum(row.accepted for row in found.rounds) == found.summary.accepted
    assert sum(node.accepted for node in found.nodes) == found.summary.accepted
    assert sum(row.drafted for row in found.rounds) == found.summary.drafted
    fates = [fate for run in several for round in run.rounds for fate in round.fates]
    assert len(found.nodes) == fates.count("accepted") + fates.count("rejected")
    for row in found.rounds:
        assert found.summary.by_draft_length[row.length][row.accepted] > 0


@settings(max_examples=50, deadline=None)
@given(runs(min_rounds=1))
def test_probabilities_are_probabilities(run):
    for node in judged([run]).nodes:
        assert 0 <= node.p <= 1
        assert all(0 <= q <= 1 for q in node.q.values())


def test_nonsense_above_zero_is_certainty():
    run = make_run(Random(3), [(2, 4)])
    verify = run.rounds[0].event("verify")
    verify.logprob = [10**9] * len(verify.logprob)
    assert {node.p for node in judged([run]).nodes} == {1.0}


def test_the_judged_nodes_of_a_tree_checked_by_hand():
    found = judged([example()])
    assert [(node.token, node.before, node.accepted, node.origin) for node in found.nodes] == [
        (SKY, THE, True, "small"), (SEA, THE, False, "small"), (IS, SKY, True, "small"), (WAS, SKY, False, "small")]
    assert [node.p for node in found.nodes] == pytest.approx([math.exp(-0.4), math.exp(-1.2), math.exp(-0.1),
                                                              math.exp(-2.5)])
    assert [node.q["small"] for node in found.nodes] == pytest.approx(
        [math.exp(-0.5), math.exp(-1.0), math.exp(-0.1), math.exp(-1.0)])
    (row,) = found.rounds
    assert (row.place, row.position, row.accepted, row.length, row.bonus) == ((0, 0), 1, 2, 2, (BLUE, IS))


def test_a_call_gives_its_own_probabilities_and_none_to_what_it_cannot_propose():
    found = {node.token: node.q for node in judged([grafted()]).nodes}
    assert found[SKY] == pytest.approx({"lookup": math.exp(-0.5), "small": math.exp(-0.8)})
    assert found[IS] == pytest.approx({"lookup": math.exp(-0.2)}), "rescored above its parent: no probability"
    assert found[WAS] == pytest.approx({"small": math.exp(-0.4)})
    chances = drafter_chances(grafted().records[0], {3})
    assert chances == {}, "unreachable for the strong drafter, without a score by the other"


def test_retrieved_nodes_have_no_probability():
    found = {node.token: node.q for node in judged([retrieved()]).nodes}
    assert found[BLUE] == found[AIR] == {}
    assert SUN not in found


def test_the_discount_of_a_policy_is_taken_out():
    record = example().records[0]
    (plain,), (discounted,) = (drafter_chances(record, {1}, policy)[1].values() for policy in ("eagle2", "specexec"))
    assert discounted == pytest.approx(plain * math.exp(-DECAY / NATS))


def test_a_node_after_the_end_of_the_text_is_not_judged():
    found = judged([example(discarded=2)])
    assert [node.token for node in found.nodes if node.accepted] == [SKY]
    assert IS not in {node.token for node in found.nodes}
    assert found.rounds[0].bonus is None


def test_rows_name_their_run():
    several = [make_run(Random(seed), [(2, 3)] * 2) for seed in range(2)]
    assert [row.place for row in judged(several).rounds] == [(0, 0), (0, 1), (1, 0), (1, 1)]
