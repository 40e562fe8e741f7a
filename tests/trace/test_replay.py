"""Replay: states and fates of random rounds against the trees as they grew."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.strategies import grown_rounds, runs
from tests.trace.sampled import sampled
from treegraft.trace import replay
from treegraft.trace.records import Accept, Tried


@settings(deadline=None)
@given(grown_rounds())
def test_states_are_those_of_the_growing_tree(grown):
    assert replay.states(grown.record) == grown.states


@settings(deadline=None)
@given(grown_rounds())
def test_last_state_holds_all_nodes_and_their_final_scores(grown):
    last = replay.states(grown.record)[-1]
    assert all(last.born)
    assert last.size == len(grown.record.nodes.token)
    assert list(last.scores) == grown.record.nodes.score


@settings(deadline=None)
@given(runs(min_rounds=1))
def test_fates_partition_the_nodes(run):
    for round in run.rounds:
        nodes, (verify, accept) = round.record.nodes, replay.ending(round.record)
        by_fate = {fate: {node for node, one in enumerate(round.fates) if one == fate} for fate in replay.FATES}
        assert set().union(*by_fate.values()) == set(range(len(nodes.token)))
        assert by_fate["root"] == {0}
        assert by_fate["pruned"] == set(range(len(nodes.token))) - set(verify.order)
        assert by_fate["accepted"] | by_fate["discarded"] == set(accept.path)
        reached = {0} | by_fate["accepted"] | by_fate["discarded"]
        assert {nodes.parent[node] for node in by_fate["rejected"]} <= reached
        assert not {nodes.parent[node] for node in by_fate["unreached"]} & reached
        assert round.accepted == len(by_fate["accepted"])


@settings(deadline=None)
@given(runs(min_rounds=1))
def test_outcomes_make_the_output(run):
    output = [run.rounds[0].record.root]
    for round in run.rounds:
        taken = round.outcome.tokens[: round.outcome.taken]
        assert round.output_start == len(output)
        output += taken
    assert run.output == output
    assert run.end.new_tokens == len(output)


def test_discarded_tokens_fall_off_bonus_first():
    accept = Accept(rule="greedy", path=[1, 2, 3], tried=[], bonus=5)
    kept = []
    for accept.discarded in range(5):
        kept.append(replay.accepted(accept))
    assert kept == [3, 3, 2, 1, 0]


def test_expected_lengths_follow_from_the_chances():
    # Below the root 1 (0.5) and 2 (0.25); below 1 its child 3 (0.4).
    record = sampled([Tried(node=1, p=-60_000, u=0.7, accepted=False), Tried(node=2, p=-90_000, u=0.1, accepted=True)],
                     path=[2], chances=[1, 0.5, 0.25, 0.4])
    assert replay.expected(record) == pytest.approx([0.5 * 1.4 + 0.25, 0.4, 0, 0])
    replay.ending(record)[1].chances = []
    assert replay.expected(record) == []


@settings(deadline=None)
@given(runs(min_rounds=1))
def test_no_round_expects_more_than_its_tree_is_deep(run):
    for round in run.rounds:
        expected = replay.expected(round.record)
        assert all(0 <= length <= round.tree.depth.max() for length in expected)
        assert bool(expected) == (run.header.decoding.rule not in ("greedy", "typical"))
