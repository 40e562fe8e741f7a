"""A round of a replay as a record: under the recorded settings it is the round that was recorded."""

from __future__ import annotations

import pytest

import treegraft
from treegraft.analysis.replayed_round import replayed_round, replayed_run
from treegraft.analysis.whatif import WhatIf, change
from treegraft.trace.records import Expand, Prune
from treegraft.view.library import DEMOS
from treegraft.view.model import run_view

REPLAYABLE = ("eagle2", "graft", "treegraft", "scheduler", "repetition")


@pytest.fixture(scope="module", params=REPLAYABLE)
def whatif(request) -> WhatIf:
    return WhatIf(treegraft.open(DEMOS / f"{request.param}.jsonl.zst").runs[0])


ROUNDING = 8
"""Units by which a probe's scores may differ from the run's: its forwards had other shapes."""


def grown(record) -> list:
    return [(event.drafter, event.parents, event.nodes, event.merged, event.grafted) for event in record.events
            if isinstance(event, Expand)]


def pruned(record) -> list[list[int]]:
    return [event.kept for event in record.events if isinstance(event, Prune)]


def test_under_the_recorded_settings_it_is_the_recorded_round(whatif):
    for round in whatif.run.rounds:
        record, again = round.record, replayed_round(whatif, round.output_start - 1, whatif.policy)
        for column in ("token", "parent", "origin", "proposers"):
            assert getattr(again.nodes, column) == getattr(record.nodes, column)
        assert all(one == other or abs(one - other) <= ROUNDING
                   for one, other in zip(again.nodes.score, record.nodes.score, strict=True))
        assert (again.context, again.root) == (record.context, record.root)
        assert grown(again) == grown(record)
        assert pruned(again) == pruned(record)
        verify, accept = round.event("verify"), round.event("accept")
        assert (again.events[-1].path, again.events[-1].bonus) == (accept.path, accept.bonus)
        assert again.events[-1].discarded == accept.discarded
        recorded = dict(zip(verify.order, verify.logprob, strict=True))
        known = {node: logprob for node, logprob in zip(again.events[-2].order, again.events[-2].logprob, strict=True)
                 if logprob is not None}
        assert all(abs(logprob - recorded[node]) <= ROUNDING for node, logprob in known.items())
        assert known.keys() >= {0, *accept.path}


def test_a_smaller_budget_sends_fewer_nodes_and_can_be_drawn(whatif):
    smaller = change(whatif.policy, budget=8)
    for place in (0, len(whatif.output) // 2):
        view = run_view(replayed_run(whatif, place, smaller))
        assert view["total"] == 1
        assert len(replayed_round(whatif, place, smaller).events[-2].order) <= 9
        assert view["policy"] == whatif.policy.name
