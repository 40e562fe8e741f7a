"""The ledger of Graft: its lengths against their definitions, and the inequalities that must never break."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.recordings import PROMPTS, drafter_of, recorded, recorded_with
from tests.policies.ranking import ScriptedRows
from tests.policies.scripted import Scripted
from tests.policies.test_graft import drafters, retrievers
from treegraft.analysis.ledger import Entry, Ledger, as_dict, ledger
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import WhatIf, change
from treegraft.drafters.successors import Successors
from treegraft.policies import Eagle2
from treegraft.policies.base import Round
from treegraft.policies.graft import STAGES, Graft
from treegraft.trace.runs import Run
from treegraft.tree import DraftTree

POLICY = Graft(budget=16, top_k=3, depth=7, tau_d0=0.5, tau_d1=0.4, tau_d5=0.3)


@functools.cache
def dense_run(learn: str) -> Run:
    return recorded_with([drafter_of("strong"), Successors(learn=learn)], PROMPTS[1], POLICY, level="dense",
                         new_tokens=20).run


def entry(**changed) -> Entry:
    values = {"context": 9, "stage": "d1", "dense": 4, "base": 4, "pruned": 1, "grafted": 3, "draft_us": 1000.0,
              "verify_pruned_us": 4000.0, "verify_grafted_us": 5000.0}
    return Entry(**(values | changed))


# --- the inequalities -----------------------------------------------------------------------------------------------


def paths(round: Round, nodes) -> set[tuple[int, ...]]:
    return {tuple(round.tree.token[round.tree.path(node)][1:].tolist()) for node in nodes}


@given(rows=retrievers(), table=drafters(), stage=st.sampled_from(["", *STAGES]), budget=st.integers(2, 60),
       top_k=st.integers(1, 5), depth=st.integers(1, 8), placement=st.sampled_from(["root", "tail", "fixed"]))
@settings(max_examples=100, deadline=None)
def test_the_pruned_tree_lies_within_the_grafted_and_the_dense_one(rows, table, stage, budget, top_k, depth, placement):
    """So no text whatever is accepted further by it than by either."""
    policy = Graft(budget=budget, top_k=top_k, depth=depth, placement=placement).stopping(stage)
    grown = {}
    for name, one in {"grafted": policy, "dense": change(policy, placement="root").ungated,
                      "pruned": change(policy, placement="none")}.items():
        round = Round(DraftTree(1, 10, policy.capacity), [Scripted(0, table.__getitem__), ScriptedRows(rows)], 1000)
        one.draft(round)
        grown[name] = round
    pruned = paths(grown["pruned"], grown["pruned"].kept) if placement != "fixed" else set()
    assert pruned <= paths(grown["grafted"], grown["grafted"].kept)
    assert pruned <= paths(grown["dense"], np.arange(grown["dense"].tree.size))


@given(taus=st.tuples(*[st.sampled_from([0.0, 0.1, 0.2, 0.4, 0.6, 0.9])] * 3), budget=st.integers(4, 16))
@settings(max_examples=15, deadline=None)
def test_lengths_on_a_dense_trace(taus, budget):
    policy = change(POLICY, budget=budget, **dict(zip(("tau_d0", "tau_d1", "tau_d5"), taus, strict=True)))
    run = dense_run("committed")
    header = run.header.policy.settings
    run.header.policy.settings = policy.settings
    try:
        found = ledger(run, everywhere=True)
    finally:
        run.header.policy.settings = header
    assert len(found.entries) == len(run.output) - 1
    for one in found.entries:
        assert one.pruned <= one.grafted
        assert one.pruned <= one.dense
        assert one.base <= one.dense


# --- its numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learn", ["all", "committed"])
def test_the_rounds_of_a_run(learn):
    run = dense_run(learn)
    found = ledger(run)
    assert [one.context for one in found.entries] == [record.context for record in run.records]
    assert [one.grafted for one in found.entries] == [
        min(round.accepted, len(round.event("accept").path)) for round in run.rounds]
    gated = [next((event.stage for event in record.events if getattr(event, "stop", False)), "")
             for record in run.records]
    assert [one.stage for one in found.entries] == gated
    assert any(gated)
    assert all(one.pruned <= one.grafted and one.pruned <= one.dense for one in found.entries)


def test_lengths_are_those_of_replays():
    run = dense_run("committed")
    whatif = WhatIf(run)
    for place, one in enumerate(ledger(run, everywhere=True).entries):
        assert one.grafted == len(whatif.verify(place, POLICY).path)
        assert one.pruned == len(whatif.verify(place, change(POLICY, placement="none")).path)
        assert one.base == len(whatif.verify(place, POLICY.ungated).path)


def test_costs_come_from_the_curves():
    run = dense_run("committed")
    first = ledger(run).entries[0]
    rows = len(run.rounds[0].event("prune").kept)
    assert first.verify_grafted_us == pytest.approx(np.interp(rows, [1, 8, 64], [5000, 6000, 12_000]), abs=1)
    assert first.verify_pruned_us <= first.verify_grafted_us
    assert first.draft_us > 2000


def test_regret_gain_and_the_condition():
    found = Ledger([entry(), entry(stage="", grafted=1, verify_grafted_us=4000.0, dense=2)])
    assert (found.regret, found.gain, found.above_base) == (2, 1, 0)
    assert found.needed_gain == pytest.approx(2 * 500 / 5000)
    assert found.pays is True
    dear = Ledger(found.entries, retrieval_us=20_000)
    assert dear.needed_gain == pytest.approx(2 * 10_500 / 5000)
    assert dear.pays is False
    assert as_dict(found)["gain"] == 1
    assert len(as_dict(found)["entries"]) == 2


def test_without_curves_there_is_no_condition():
    found = Ledger([entry(draft_us=None)])
    assert (found.needed_gain, found.pays) == (None, None)


def test_curves_that_say_nothing_takes_time_give_no_condition():
    found = Ledger([entry(draft_us=0.0, verify_pruned_us=0.0, verify_grafted_us=0.0)])
    assert (found.needed_gain, found.pays) == (None, None)


def test_positions_where_the_base_policy_lost_a_shallow_node_are_counted():
    assert Ledger([entry(base=0), entry()]).above_base == 1


def test_other_policies_have_no_ledger():
    run = recorded(["strong"], PROMPTS[0], Eagle2(budget=6, top_k=2, depth=2), new_tokens=3).run
    with pytest.raises(NotRecorded, match="recorded with eagle2; record with --policy graft --level dense"):
        ledger(run)


def test_a_trace_that_is_not_dense_is_refused():
    run = dense_run("committed")
    bare = Run(run.header, run.pieces, run.prefill, run.records, run.end, [])
    with pytest.raises(NotRecorded, match="no probe of strong"):
        ledger(bare)
