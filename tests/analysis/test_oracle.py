"""Oracle lengths are those that a walk over all paths of the tree finds."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

import treegraft
from tests.strategies import make_run, runs
from tests.view.examples import BLUE, IS, SEA, SKY, drawn, example, grafted
from treegraft.analysis.oracle import Reach, following, reach, right_path
from treegraft.trace.records import Accept, Prune, Verify
from treegraft.view.library import DEMOS


def longest(record, text: list[int], allowed) -> int:
    """The longest path of `allowed` nodes that spells the beginning of `text`, by looking at every node's path."""
    best = 0
    for node in range(1, len(record.nodes.token)):
        path, above = [], node
        while above:
            path.append(above)
            above = record.nodes.parent[above]
        path.reverse()
        spelled = [record.nodes.token[one] for one in path]
        if all(map(allowed, path)) and spelled == text[: len(path)]:
            best = max(best, len(path))
    return best


@given(runs(min_rounds=1))
def test_reach_is_what_a_walk_over_all_paths_finds(run):
    for round in run.rounds:
        record, text = round.record, run.output[round.output_start:]
        found, verified = reach(round), set(round.event("verify").order)
        assert list(following(run, round.index)) == text
        assert found.grown == longest(record, text, lambda node: True)
        assert found.verified == longest(record, text, verified.__contains__)
        for drafter, alone in found.alone.items():
            own = {node for node, proposers in enumerate(record.nodes.proposers) if proposers >> drafter & 1}
            assert alone == longest(record, text, own.__contains__)
        assert round.accepted <= found.verified <= found.grown


def test_right_tokens_by_hand():
    assert list(following(example(), 0)) == [SKY, IS, BLUE]
    assert reach(example().rounds[0]) == Reach(verified=2, grown=2, alone={0: 0, 1: 2})
    assert reach(grafted().rounds[0]) == Reach(verified=3, grown=3, alone={0: 2, 1: 0})


def test_in_a_sampled_run_the_drawn_text_is_right():
    run = drawn()
    assert list(following(run, 0)) == [SEA, BLUE]
    assert reach(run.rounds[0]) == Reach(verified=1, grown=1, alone={0: 0, 1: 1})


def test_pruned_right_tokens_are_in_the_grown_tree_alone():
    run = example()
    kept = [0, 1, 2, 4, 5]
    run.records[0].events[-3:] = [
        Prune(budget=4, rule="score", kept=kept), Verify(order=kept, argmax=[SKY, IS, IS, IS, IS], logprob=[0] * 5),
        Accept(rule="greedy", path=[1], tried=[], bonus=IS)]
    assert right_path(run.rounds[0]) == [1, 3]
    assert reach(run.rounds[0]) == Reach(verified=1, grown=2, alone={0: 0, 1: 2})


def test_the_end_of_the_text_bounds_the_reach():
    assert reach(example(discarded=2).rounds[0]).grown == 1


@pytest.mark.parametrize("name", ["treegraft", "sampled", "repetition"])
def test_bundled_recordings_hold_at_least_what_was_accepted(name):
    for round in treegraft.open(DEMOS / f"{name}.jsonl.zst").runs[0].rounds:
        found = reach(round)
        assert round.accepted <= found.verified <= found.grown
        assert max(found.alone.values(), default=0) <= found.grown


def test_rounds_are_read_only_as_far_as_they_are_needed():
    run = make_run(Random(3), [(1, 2)] * 4)
    assert next(following(run, 3)) == run.output[run.rounds[3].output_start]
