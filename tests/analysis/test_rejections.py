"""Rejections and their pairs, against rounds that can be checked by hand, and against fates in random ones."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given

from tests.strategies import runs
from tests.view.examples import AIR, BLUE, IS, MOON, SEA, SKY, SUN, WAS, drawn, example, grafted
from treegraft.analysis.rejections import Vocabulary, pairs, rejections
from treegraft.trace import Run
from treegraft.trace.records import Probe


def own() -> Run:
    """The example's run with a round of its own, which may be changed."""
    run = example()
    run.records[0] = copy.deepcopy(run.records[0])
    return run


def test_a_rejection_says_what_was_drafted_and_what_was_chosen():
    sea, was = rejections(example())
    assert (sea.round, sea.node, sea.drafted, sea.chosen, sea.best) == (0, 2, SEA, SKY, False)
    assert (was.node, was.drafted, was.chosen, was.drafter, was.best) == (4, WAS, IS, 1, False)
    assert (sea.p_drafted, sea.p_chosen) == (-120_000, -40_000)
    assert (sea.gap, was.gap) == pytest.approx((0.8, 2.4))


def test_the_best_guess_at_a_place_is_the_one_with_the_highest_score():
    run = own()
    run.records[0].events[-1].path, run.records[0].events[-1].bonus = [], SUN
    run.records[0].events[-2].walk = run.records[0].events[-2].walk[:1]
    found = rejections(run)
    assert [(one.drafted, one.chosen, one.best) for one in found] == [(SKY, SUN, True), (SEA, SUN, False)]
    assert found[0].gap == pytest.approx(-3.6), "the chosen token's p is that of the walk"
    assert all(one.pruned for one in found), "node 7 held it and was pruned"


def test_a_chosen_token_whose_p_was_not_recorded_leaves_no_gap():
    run = own()
    run.records[0].events[-1].path, run.records[0].events[-1].bonus = [], BLUE
    assert [one.gap for one in rejections(run)] == [None, None]
    pair = pairs(run, rejections(run))[0]
    assert (pair.gap, pair.known, pair.p_chosen, pair.pruned) == (None, 0, None, 0)


def test_places_after_the_end_of_the_text_are_left_out():
    run = example(discarded=2)
    assert [one.drafted for one in rejections(run)] == [SEA]


def test_sampled_rounds_have_gaps_of_either_sign():
    first, last = rejections(drawn())
    assert (first.drafted, first.chosen, first.best) == (SKY, SEA, True)
    assert first.gap == pytest.approx(-0.8)
    assert (last.drafted, last.chosen, last.gap) == (IS, BLUE, pytest.approx(-4.65))


def test_pairs_count_and_average():
    run = own()
    again = copy.deepcopy(run.records[0])
    again.index, again.context, again.root = 1, 7, run.records[0].root
    again.events[-2].logprob[2] = -80_000
    run.records.append(again)
    found = pairs(run, rejections(run))
    assert [(pair.drafted, pair.chosen, pair.count, pair.rounds) for pair in found] == [
        (WAS, IS, 2, [0, 1]), (SEA, SKY, 2, [0, 1])], "as often, the wider gap first"
    assert found[1].gap == pytest.approx(0.6)
    assert (found[1].p_drafted, found[1].known) == (pytest.approx((math.exp(-1.2) + math.exp(-0.8)) / 2), 2)


def test_whether_a_drafter_can_propose_a_token():
    run = grafted()
    run.header.drafters[1].proposes, run.header.target.vocab_size = 8, 40
    vocabulary = Vocabulary(run)
    assert vocabulary.has(0, MOON) is True, "it has no vocabulary of its own"
    assert vocabulary.has(1, AIR) is True, "it did"
    assert vocabulary.has(1, BLUE) is False, "a call could not"
    assert vocabulary.has(1, MOON) is None
    run.probes.append(Probe(drafter=1, context=4, token=[run.records[0].root, SUN], parent=[-1, 0], logprob=[None, -9],
                            unreachable=[1], expanded=[0], k=1, best=[MOON], best_logprobs=[-1]))
    vocabulary = Vocabulary(run)
    assert (vocabulary.has(1, SUN), vocabulary.has(1, MOON)) == (False, True)


@given(run=runs())
def test_rejections_are_the_rejected_nodes_inside_the_text(run):
    found = rejections(run)
    for round in run.rounds:
        nodes, outcome = round.record.nodes, round.outcome
        after = dict(zip([0, *round.path], outcome.tokens[:outcome.taken], strict=False))
        rejected = [node for node, fate in enumerate(round.fates) if fate == "rejected"
                    and after.get(nodes.parent[node], nodes.token[node]) != nodes.token[node]]
        assert sorted(one.node for one in found if one.round == round.index) == rejected
    assert sum(pair.count for pair in pairs(run, found)) == len(found)
