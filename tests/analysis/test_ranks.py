"""Acceptance by rank: a worked example, and a second way to count on recorded runs."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.analysis.recordings import PROMPTS, recorded
from tests.strategies import make_header
from treegraft.analysis.ranks import acceptance_by_rank
from treegraft.policies import Chain, Eagle2
from treegraft.trace.records import Accept, DrafterInfo, Expand, Nodes, Prefill, Prune, Round, Verify
from treegraft.trace.runs import Run


def worked_run(accepted: int = 2, discarded: int = 0) -> Run:
    """The root (token 1) has the children 5 6 7; the accepted one has 8 9, of which none is accepted: 4 follows."""
    header = make_header([1])
    header.drafters = [DrafterInfo(id=0, kind="lm", name="small")]
    nodes = Nodes(token=[1, 5, 6, 7, 8, 9], parent=[-1, 0, 0, 0, accepted, accepted], origin=[-1, 0, 0, 0, 0, 0],
                  score=[0, -1, -2, -3, -4, -5], proposers=[0, 1, 1, 1, 1, 1])
    events = [Expand(layer=1, drafter=0, parents=[0], nodes=[1, 2, 3], scores=[-1, -2, -3]),
              Expand(layer=2, drafter=0, parents=[1, accepted], nodes=[4, 5], scores=[-4, -5]),
              Prune(budget=4, rule="score", kept=[0, 1, accepted, 4]),
              Verify(order=[0, 1, accepted, 4], argmax=[4 + accepted, 3, 4, 3], logprob=[0, -9, -9, -9]),
              Accept(rule="greedy", path=[accepted], tried=[], bonus=4, discarded=discarded)]
    return Run(header, {}, Prefill(microseconds=1, root=1), [Round(index=0, context=2, root=1, nodes=nodes,
                                                                   events=events)], None)


def test_worked_example():
    """Two places: at the root the second (or the third) of three, at the accepted node none of two."""
    assert acceptance_by_rank([worked_run()]) == [0.0, 0.5, 0.0]
    assert acceptance_by_rank([worked_run(accepted=3)]) == [0.0, 0.0, 1.0]
    assert acceptance_by_rank([worked_run()], "small") == [0.0, 0.5, 0.0]
    assert acceptance_by_rank([worked_run(), worked_run()]) == [0.0, 0.5, 0.0]


def test_places_after_the_end_of_the_text_do_not_count():
    assert acceptance_by_rank([worked_run(discarded=1)]) == [0.0, 1.0, 0.0]


def test_no_places():
    assert acceptance_by_rank([]) == []
    assert acceptance_by_rank([worked_run()], "other") == []


@pytest.mark.parametrize("policy", [Eagle2(budget=12, top_k=4, depth=3), Chain(length=3)], ids=lambda one: one.name)
def test_ranks_by_the_scores_of_all_children(policy):
    run = recorded(["strong"], PROMPTS[0], policy, new_tokens=20).run
    hits, places = Counter(), 0
    for round in run.rounds:
        walk = [0, *round.path]
        for node, following in zip(walk, round.outcome.tokens[: round.outcome.taken], strict=False):
            below = round.tree.children(node)
            if len(below):
                best_first = sorted(below, key=lambda child, tree=round.tree: -tree.score[child])
                tokens = round.tree.token[best_first].tolist()
                places += 1
                hits[tokens.index(following) if following in tokens else None] += 1
    width = getattr(policy, "top_k", 1)
    assert acceptance_by_rank([run]) == [hits[rank] / places for rank in range(width)]
    assert hits[0] > 0
