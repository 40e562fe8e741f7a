"""A dense trace of Graft replays under other thresholds, budgets and placements as if they had been run."""

from __future__ import annotations

import functools

import pytest

from tests.analysis.recordings import PROMPTS, drafter_of, recorded_with
from tests.analysis.test_whatif import same_rounds
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import WhatIf, change
from treegraft.drafters.successors import Successors
from treegraft.policies.graft import STAGES, Graft
from treegraft.trace.records import Gate
from treegraft.trace.runs import Run

POLICY = Graft(budget=30, top_k=4, depth=7, tau_d0=0.3, tau_d1=0.2, tau_d5=0.1)


def run_of(policy: Graft, *, drafter: str = "strong", learn: str = "committed", level: str = "run",
           prompt=PROMPTS[1]) -> Run:
    return recorded_with([drafter_of(drafter), Successors(learn=learn)], prompt, policy, level=level).run


@functools.cache
def dense_run(drafter: str) -> Run:
    return run_of(POLICY, drafter=drafter, level="dense")


@pytest.fixture(params=["strong", "eagle3"])
def dense(request):
    return dense_run(request.param), request.param


def test_the_recorded_run_itself(dense):
    same_rounds(WhatIf(dense[0]).replay(), dense[0])


@pytest.mark.parametrize("changed", [
    {"tau_d0": 0.0, "tau_d1": 0.0, "tau_d5": 0.0}, {"tau_d0": 0.9}, {"tau_d0": 0.0, "tau_d1": 0.5},
    {"tau_d0": 0.0, "tau_d1": 0.0, "tau_d5": 0.9}, {"tau_d0": 0.6, "tau_d1": 0.4, "tau_d5": 0.3}, {"gates": "0,2,4"},
    {"budget": 12}, {"budget": 12, "tau_d1": 0.9}, {"placement": "none", "tau_d1": 0.5},
    {"placement": "tail", "tau_d1": 0.5}, {"placement": "tail", "tau_d5": 0.9}, {"placement": "fixed"},
    {"root_counts": False, "budget": 20}, {"depth": 4}])
def test_other_settings_as_if_they_had_run(changed):
    run, drafter = dense_run("strong"), "strong"
    policy = change(POLICY, **changed)
    live = run_of(policy, drafter=drafter)
    assert live.output == run.output
    same_rounds(WhatIf(run).replay(policy), live)


def test_thresholds_of_an_eagle3_head_as_if_they_had_run():
    policy = change(POLICY, tau_d0=0.5, tau_d1=0.4, tau_d5=0.3)
    same_rounds(WhatIf(dense_run("eagle3")).replay(policy), run_of(policy, drafter="eagle3"))


def test_runs_stop_at_every_gate(dense):
    """So that the comparisons above say something."""
    run = dense[0]
    whatif, found = WhatIf(run), set()
    for changed in ({"tau_d0": 0.6}, {"tau_d0": 0.0, "tau_d1": 0.4, "tau_d5": 0.3}):
        policy = change(POLICY, **changed)
        rounds = whatif.replay(policy).rounds
        found |= {len(one.forwards) for one in rounds}
    assert {2, 3, 7} <= found
    gates = [event for record in run.records for event in record.events if isinstance(event, Gate)]
    assert {gate.stop for gate in gates} == {True, False}


def test_trees_are_grown_once_for_all_thresholds(dense):
    whatif = WhatIf(dense[0])
    for place in range(len(whatif.output) - 1):
        for stage in ("", *STAGES):
            whatif.grow(place, POLICY.stopping(stage))
    grown = len(whatif._grown)
    for threshold in (0.1, 0.3, 0.7):
        whatif.replay(change(POLICY, tau_d0=threshold, tau_d1=threshold / 2, tau_d5=threshold / 3))
    assert len(whatif._grown) == grown


def test_what_was_drafted_serves_all_budgets(dense, monkeypatch):
    run = dense[0]
    policies = [change(POLICY, budget=budget, placement=placement) for placement in ("root", "none")
                for budget in (30, 12, 20, 5)]
    alone = [WhatIf(run).replay(policy) for policy in policies]
    whatif = WhatIf(run)
    for place in range(len(whatif.output) - 1):
        for stage in ("", *STAGES):
            whatif.grow(place, POLICY.stopping(stage))
    monkeypatch.setattr(Graft, "grow", lambda *_: pytest.fail("drafted anew"))
    for policy, wanted in zip(policies, alone, strict=True):
        found = whatif.replay(policy)
        assert [one.forwards for one in found.rounds] == [one.forwards for one in wanted.rounds]
        for one, other in zip(found.rounds, wanted.rounds, strict=True):
            assert one.grown.tree.token.tolist() == other.grown.tree.token.tolist()
            assert one.verified.kept.tolist() == other.verified.kept.tolist()
            assert (one.verified.path, one.verified.taken) == (other.verified.path, other.verified.taken)


def test_a_retriever_that_learns_from_rejected_nodes_is_not_replayed():
    run = run_of(POLICY, learn="all", level="dense")
    with pytest.raises(NotRecorded, match=r"what earlier rounds verified.*--set successors\.learn=committed"):
        WhatIf(run)


def test_what_was_not_recorded_is_said(dense):
    run = dense[0]
    alone = [probe for probe in run.probes if probe.drafter == 0]
    whatif = WhatIf(Run(run.header, run.pieces, run.prefill, run.records, run.end, alone))
    with pytest.raises(NotRecorded, match="no probe of successors"):
        whatif.replay(change(POLICY, tau_d1=0.9))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_rows_are_those_that_the_run_knew(prompt):
    """Rounds of a run with `learn=committed` are replayed whatever the prompt, rows learned on the way included."""
    run = run_of(POLICY, level="dense", prompt=prompt)
    same_rounds(WhatIf(run).replay(), run)
