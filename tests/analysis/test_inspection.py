"""Mask, positions and caches of rounds: sound ones pass every check, and each defect breaks its own."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given

from tests.strategies import runs
from tests.view.examples import example
from treegraft.analysis.inspection import attention, broken, caches, checks, lineage
from treegraft.trace.records import TARGET

NUMBERING, SIBLINGS, MASK, POSITIONS, CACHE, FOLLOWS = (
    "Every parent comes before its children", "No two children of a node hold the same token",
    "Every node attends to itself and its ancestors alone", "Positions go on from the context without a gap",
    "The target's KV cache holds all committed tokens but the next root", "The next round goes on where this one ended")
DRAFTER = "The KV cache of small holds committed tokens alone"


def verdicts(record, after=None) -> dict[str, str]:
    return {check.name: check.verdict for check in checks(record, after, example().header)}


def numbers(record, name: str, after=None) -> str:
    return next(check.numbers for check in checks(record, after, example().header) if check.name == name)


def sound():
    """The example's round (context 4, nodes 1 and 3 accepted) with caches, and the round after it."""
    record, after = (copy.deepcopy(example().records[0]) for _ in range(2))
    record.kv = {TARGET: 6, 1: 5}
    after.index, after.context, after.root = 1, 7, record.events[-1].bonus
    after.nodes.token[0] = after.root
    return record, after


def test_a_sound_round_holds():
    record, after = sound()
    assert set(verdicts(record, after).values()) == {"holds"}
    assert verdicts(record)[FOLLOWS] == "unknown"
    assert numbers(record, CACHE) == "6 = context 4 + 2 accepted"
    assert numbers(record, POSITIONS) == "3 (the root) to 5: context - 1 + depth"
    assert "1 behind" in numbers(record, DRAFTER)


@given(run=runs(min_rounds=1))
def test_random_sound_rounds_hold(run):
    for place, record in enumerate(run.records):
        after = run.records[place + 1] if place + 1 < len(run.records) else None
        assert "broken" not in {check.verdict for check in checks(record, after, run.header)}


@given(run=runs(min_rounds=1))
def test_mask_and_positions_are_those_of_the_engine(run):
    for round in run.rounds:
        seen, order = attention(round.record), np.array(round.event("verify").order)
        assert np.array_equal(seen.mask, round.tree.mask[np.ix_(order, order)])
        assert seen.position == round.tree.positions[order].tolist()


def test_a_cache_with_the_whole_tree_left_in_it():
    record, after = sound()
    record.kv[TARGET] = 9
    assert [name for name, verdict in verdicts(record, after).items() if verdict == "broken"] == [CACHE]
    assert numbers(record, CACHE) == ("9, expected 6 = context 4 + 2 accepted; that is the whole verified tree: "
                                      "rejected nodes were not taken out")


def test_a_cache_that_went_on_by_one_token():
    record, _ = sound()
    record.kv[TARGET] = 4
    assert "went on by one token" in numbers(record, CACHE)
    record.kv[TARGET] = 5
    assert numbers(record, CACHE) == "5, expected 6 = context 4 + 2 accepted"


def test_a_drafter_that_kept_rejected_tokens():
    record, _ = sound()
    record.kv[1] = 8
    assert verdicts(record)[DRAFTER] == "broken"
    assert numbers(record, DRAFTER) == "8, at most 6: 2 more than were committed before the next root"


def test_caches_that_were_not_recorded_are_unknown():
    record, _ = sound()
    record.kv = {}
    assert verdicts(record)[CACHE] == "unknown"


@pytest.mark.parametrize(("name", "value"), [("context", 5), ("root", 3)])
def test_a_next_round_that_does_not_follow(name, value):
    record, after = sound()
    setattr(after, name, value)
    assert verdicts(record, after)[FOLLOWS] == "broken"
    assert str(value) in numbers(record, FOLLOWS, after)


def test_a_parent_that_comes_later():
    record, _ = sound()
    record.nodes.parent[1] = 3
    found = verdicts(record)
    assert (found[NUMBERING], found[MASK]) == ("broken", "broken")
    assert numbers(record, NUMBERING) == "node 1 has parent 3; 1 of 8 are wrong"
    assert "stands later in the order" in numbers(record, MASK)
    record.nodes.parent[1] = -1
    assert "do not lead to the root" in numbers(record, MASK)


def test_a_node_before_its_parent_in_the_order():
    record, _ = sound()
    record.events[-2].order = [0, 3, 1, 2, 4, 5]
    assert verdicts(record)[MASK] == "broken"
    assert "stands later in the order" in numbers(record, MASK)


def test_a_node_whose_parent_was_not_sent():
    record, _ = sound()
    record.events[-2].order = [0, 2, 3, 4, 5]
    assert numbers(record, MASK) == "node 3: 1 of its ancestors were not sent to the target; 2 of 5 are wrong"
    record.events[-2].order = [0, 3, 4]
    assert numbers(record, POSITIONS) == "no node at depth 1, so position 4 is empty"


def test_siblings_with_one_token():
    record, _ = sound()
    record.nodes.token[2] = record.nodes.token[1]
    assert verdicts(record)[SIBLINGS] == "broken"
    assert numbers(record, SIBLINGS).startswith("nodes 1 and 2 hold token 19 below node 0")


def test_parents_in_a_circle_end():
    assert lineage([-1, 2, 1], 1) == [1, 2]
    assert lineage([-1, 0, 1], 2) == [2, 1, 0]


def test_caches_before_and_after():
    run = example()
    record, after = sound()
    target, small = caches(record, None, run.header, run.prefill)
    assert (target.before, target.during, target.after, target.expected) == (3, 9, 6, 6)
    assert (small.model, small.before, small.during, small.after) == (1, None, None, 5)
    target, small = caches(after, record, run.header, run.prefill)
    assert (target.before, target.during, target.after, small.before) == (6, 12, None, 5)
    assert caches(record, None, run.header)[0].before is None


def test_what_is_broken_anywhere_in_a_run():
    run = example()
    run.records = list(sound())
    assert broken(run) == []
    run.records[0].kv[TARGET], run.records[1].kv[1] = 9, 99
    assert [(number, check.name) for number, check in broken(run)] == [(0, CACHE), (1, DRAFTER)]
