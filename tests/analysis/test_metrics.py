"""Metrics: the identities of their definitions on random runs, and one run counted by hand."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import make_header, make_run, runs
from treegraft.analysis.metrics import as_dict, by_group, summary
from treegraft.trace import Run
from treegraft.trace.records import TARGET, Accept, Baseline, End, Expand, Forward, Nodes, Prefill, Prune, Round, Verify


@settings(max_examples=50, deadline=None)
@given(runs())
def test_identities(run):
    counts = summary(run)
    histogram = counts.histogram
    assert counts.broken == []
    assert sum(histogram) == counts.rounds == len(run.rounds)
    assert sum(j * rounds for j, rounds in enumerate(histogram)) == counts.accepted
    assert counts.tokens == len(run.output) == run.end.new_tokens
    for column in ("grown", "verified", "accepted"):
        assert sum(getattr(origin, column) for origin in counts.origins) == getattr(
            counts, {"verified": "drafted"}.get(column, column))
    assert counts.rejected_rounds + counts.undrafted_rounds <= (histogram[0] if histogram else 0)
    assert sum(counts.phases.values()) == run.prefill.microseconds + sum(r.record.times["total"] for r in run.rounds)


@settings(max_examples=50, deadline=None)
@given(runs(min_rounds=1))
def test_depths_follow_from_the_histogram(run):
    counts = summary(run)
    at_least = [sum(counts.histogram[j:]) for j in range(len(counts.histogram) + 1)]
    for row in counts.depths:
        assert row.accepted == (at_least[row.depth] if row.depth < len(at_least) else 0)
        assert row.reached == (at_least[row.depth - 1] if row.depth <= len(at_least) else 0)
        assert row.accepted <= min(row.reached, row.proposed)
        assert row.rounds == counts.rounds
    assert sum(row.accepted for row in counts.depths) == counts.accepted
    product = 1.0
    for row in counts.depths:
        if row.conditional is not None:
            product *= row.conditional
            assert row.marginal == pytest.approx(product)


@settings(max_examples=50, deadline=None)
@given(runs())
def test_histogram_by_draft_length_adds_up_and_never_accepts_deeper_than_was_drafted(run):
    counts = summary(run)
    for length, histogram in counts.by_draft_length.items():
        assert len(histogram) <= length + 1
    assert sum(map(sum, counts.by_draft_length.values())) == counts.rounds


@settings(max_examples=50, deadline=None)
@given(st.lists(runs(), max_size=3))
def test_several_runs_are_micro_averaged(several):
    together, alone = summary(several), [summary(run) for run in several]
    for name in ("rounds", "tokens", "accepted", "drafted", "grown", "discarded", "rejected_rounds", "recording"):
        assert getattr(together, name) == sum(getattr(one, name) for one in alone)
    assert together.speed.microseconds == sum(one.speed.microseconds for one in alone)
    assert together.runs == len(several)
    if together.rounds:
        assert together.tau == pytest.approx(1 + together.accepted / together.rounds)


def by_hand(end: End | None) -> Run:
    """Three rounds: two of three nodes accepted, both rejected, and nothing drafted with the bonus after the end."""
    prefill = Prefill(microseconds=1000, root=18)
    rounds = [
        Round(index=0, context=3, root=18, times={"draft": 300, "verify": 500, "total": 1000},
              nodes=Nodes(token=[18, 19, 20, 21, 22], parent=[-1, 0, 1, 0, 3], origin=[-1, 0, 1, 1, 1],
                          score=[0, -1, -2, -3, -4], proposers=[0, 1, 2, 2, 2]),
              forwards=[Forward(model=1, tokens=2, microseconds=200),
                        Forward(model=TARGET, tokens=4, microseconds=450)],
              events=[Expand(layer=1, drafter=0, parents=[0], nodes=[1], scores=[-1]),
                      Expand(layer=2, drafter=1, parents=[0, 1], nodes=[2, 3, 4], scores=[-2, -3, -4]),
                      Prune(budget=3, rule="score", kept=[0, 1, 2, 3]),
                      Verify(order=[0, 1, 2, 3], argmax=[19, 20, 23, 0], logprob=[0, -5, -6, -9]),
                      Accept(rule="greedy", path=[1, 2], tried=[], bonus=23)]),
        Round(index=1, context=6, root=23, times={"total": 1000}, note="few matches",
              nodes=Nodes(token=[23, 24, 25], parent=[-1, 0, 0], origin=[-1, 0, 0], score=[0, -1, -2],
                          proposers=[0, 1, 1]),
              events=[Expand(layer=1, drafter=0, parents=[0], nodes=[1, 2], scores=[-1, -2]),
                      Verify(order=[0, 1, 2], argmax=[26, 0, 0], logprob=[0, -5, -6]),
                      Accept(rule="greedy", path=[], tried=[], bonus=26)]),
        Round(index=2, context=7, root=26, times={"total": 500},
              nodes=Nodes(token=[26], parent=[-1], origin=[-1], score=[0], proposers=[0]),
              events=[Verify(order=[0], argmax=[27], logprob=[0]),
                      Accept(rule="greedy", path=[], tried=[], bonus=27, discarded=1)]),
    ]
    return Run(make_header([1, 2]), {}, prefill, rounds, end)


def test_a_run_counted_by_hand():
    counts = summary(by_hand(End(reason="stop", new_tokens=5, microseconds=500_000, recording=70,
                                 notes=["few matches", "n"], baseline=Baseline(tokens=5, microseconds=1_000_000))))
    assert (counts.rounds, counts.tokens, counts.accepted, counts.drafted, counts.grown) == (3, 5, 2, 5, 6)
    assert counts.tau == pytest.approx(1 + 2 / 3)
    assert counts.mean_accepted == pytest.approx(2 / 3)
    assert counts.node_yield == pytest.approx(2 / 5)
    assert (counts.rejected_rounds, counts.undrafted_rounds, counts.discarded) == (1, 1, 1)
    assert counts.histogram == [2, 0, 1]
    assert counts.by_draft_length == {0: [1], 1: [1], 2: [0, 0, 1]}
    first, second = counts.depths
    assert (first.marginal, first.conditional, first.proposed) == (1 / 3, 1 / 3, 2)
    assert (second.marginal, second.conditional, second.proposed) == (1 / 3, 1.0, 1)
    assert {origin.name: (origin.grown, origin.verified, origin.accepted) for origin in counts.origins} == {
        "lookup": (3, 3, 1), "small": (3, 2, 1)}
    assert counts.phases == {"draft": 300, "verify": 500, "other": 1700, "prefill": 1000}
    assert {model.name: (model.forwards, model.tokens, model.microseconds) for model in counts.models} == {
        "small": (1, 2, 200), "target": (1, 4, 450)}
    assert counts.speed.tokens_per_second == pytest.approx(10)
    assert counts.baseline.tokens_per_second == pytest.approx(5)
    assert counts.speedup == pytest.approx(2)
    assert (counts.reasons, counts.statuses) == ({"stop": 1}, {"speculating": 1})
    assert (counts.notes, counts.recording) == ({"few matches": 1, "n": 1}, 70)
    assert counts.broken == []


def test_an_unfinished_run_counts_in_everything_but_speed():
    counts = summary([by_hand(None), make_run(Random(3), [])])
    assert counts.reasons["unfinished"] == 1
    assert counts.rounds == 3
    assert counts.speed.tokens == 1


def test_a_trace_that_contradicts_itself_is_named():
    (problem,) = summary(by_hand(End(reason="stop", new_tokens=9, microseconds=1))).broken
    assert "5 output tokens" in problem
    assert "9" in problem


def test_ratios_of_nothing_are_none():
    counts = summary([])
    assert (counts.tau, counts.mean_accepted, counts.node_yield, counts.speedup) == (None,) * 4
    assert counts.speed.tokens_per_second is None


def test_groups_keep_their_order():
    several = [make_run(Random(seed), [(2, 3)]) for seed in range(3)]
    for run, group in zip(several, "bab", strict=True):
        run.header.group = group
    groups = by_group(several)
    assert {name: counts.runs for name, counts in groups.items()} == {"b": 2, "a": 1}
    assert list(groups) == ["b", "a"]


@settings(max_examples=50, deadline=None)
@given(runs())
def test_summary_goes_into_json(run):
    values = json.loads(json.dumps(as_dict(summary(run)), allow_nan=False))
    assert values["accepted"] == summary(run).accepted
    assert len(values["depths"]) == len(summary(run).depths)
