"""TreeGraft's layers: the worked examples of the method, the settings beyond it, and what its events say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies.scripted import Scripted, nats
from treegraft.drafters.base import Committed, Prefilled
from treegraft.drafters.lookup import Lookup as LookupDrafter
from treegraft.policies import TreeGraft
from treegraft.policies.base import Round
from treegraft.settings import SettingError
from treegraft.trace.records import Decide, Expand, Prune, Rescore, Reselect
from treegraft.tree import NEG_INF, DraftTree

PROMPT, TEXT = [7, 1, 2, 3, 7, 1], [7, 1, 2, 3, 7, 1, 2, 4, 7, 1]
FIRST, SECOND, THIRD = nats(0.6), nats(0.3), nats(0.09)


def copier() -> LookupDrafter:
    """The weak drafter of the worked examples: the prompt's tokens have log-prob -0.5, later ones 0."""
    drafter = LookupDrafter(ngram=3)
    drafter.begin(Prefilled(prompt=PROMPT, root=2, tokens=np.array(TEXT[1:7])[:, None],
                            logprobs=np.full((6, 1), -50_000)), 100, 100)
    drafter.commit(DraftTree(2, 7, 15), Committed(np.array([], np.int64), TEXT[7:]))
    return drafter


def draft(schedule: str, strong: Scripted | None = None, **changed) -> Round:
    policy = TreeGraft(**{"budget": 7, "top_k": 2, "layers": 3, "schedule": schedule} | changed)
    round = Round(DraftTree(1, 10, policy.capacity), [copier(), strong or Scripted()], limit=100)
    policy.draft(round)
    return round


def of_kind(round: Round, kind: type) -> list:
    return [event for event in round.events if type(event) is kind]


# --- the worked examples --------------------------------------------------------------------------------------------


def test_never():
    round = draft("never")
    assert round.tree.token.tolist() == [1, 2, 4, 7, 3, 7]
    assert round.tree.parent.tolist() == [-1, 0, 1, 2, 1, 4]
    assert round.tree.score.tolist() == [0, -50_000] + [NEG_INF] * 4
    assert [event.layer for event in of_kind(round, Decide)] == [1]


def test_a_call_in_the_first_layer():
    round = draft("1")
    tree = round.tree
    assert tree.token.tolist() == [1, 2, 3, 4, 7, 3, 7, 7, 1]
    assert tree.parent.tolist() == [-1, 0, 0, 1, 3, 1, 5, 2, 7]
    assert tree.score.tolist() == [0, FIRST, SECOND, FIRST, NEG_INF, FIRST - 50_000, NEG_INF, SECOND - 50_000, NEG_INF]
    call, second, third = of_kind(round, Expand)
    assert (call.nodes, second.nodes, third.nodes) == ([1, 2], [3, 4, 5, 6, 7, 8], [])
    assert second.stopped == [2]
    assert (third.parents, third.stopped) == ([3, 5], [3, 5])
    assert round.kept.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_calls_in_every_layer():
    round = draft("always", lookback=5)
    tree = round.tree
    assert tree.token.tolist() == [1, 2, 3, 3, 4]
    assert tree.parent.tolist() == [-1, 0, 0, 1, 1]
    assert tree.score.tolist() == [0, FIRST, SECOND, 2 * FIRST, FIRST + SECOND]
    first, second, third = of_kind(round, Reselect)
    assert (first.after, second.after, third.after) == ([0], [0, 1], [0, 1])
    assert third.before == [1, 3]
    assert of_kind(round, Expand)[2].nodes == []


def test_calls_without_lookback_grow_more():
    assert draft("always", lookback=0).tree.size == 11


# --- what a call does -----------------------------------------------------------------------------------------------


def test_a_call_rescores_copied_tails_and_removes_nothing():
    round = draft("2", survive_empty=True)
    rescore, = of_kind(round, Rescore)
    assert rescore.nodes == [1, 2, 3, 4, 5]
    assert rescore.before == [-50_000, None, None, None, None]
    assert rescore.after == [FIRST, FIRST + SECOND, FIRST + SECOND + THIRD, 2 * FIRST, 2 * FIRST + nats(0.01 / 7)]
    assert round.tree.size > 6


@given(schedule=st.sampled_from(["never", "always", "1", "2", "1,3", "2,3"]), lookback=st.integers(0, 5),
       top_k=st.integers(1, 4), layers=st.integers(3, 5), skip_expanded=st.booleans(), survive_empty=st.booleans())
@settings(max_examples=60, deadline=None)
def test_trees_only_grow_and_scores_follow_the_paths(schedule, lookback, top_k, layers, skip_expanded, survive_empty):
    round = draft(schedule, lookback=lookback, top_k=top_k, layers=layers, skip_expanded=skip_expanded,
                  survive_empty=survive_empty)
    born = 1
    for event in of_kind(round, Expand):
        assert event.nodes == list(range(born, born + len(event.nodes)))
        born += len(event.nodes)
    assert born == round.tree.size
    prune = round.events[-1]
    assert type(prune) is Prune
    assert set(prune.kept) <= set(range(born))
    for event in of_kind(round, Rescore):
        assert all(after is not None for after in event.after)


def test_scores_after_a_call_are_the_strong_drafters_own():
    strong = Scripted()
    round = draft("2", strong, survive_empty=True, layers=2)
    tree = round.tree
    logprob, _ = strong.judge(tree, np.arange(1, tree.size), np.zeros(0, np.int64))
    for node in range(1, tree.size):
        assert tree.score[node] == sum(logprob[above - 1] for above in tree.path(node)[1:])


def test_calls_read_each_node_once_and_only_what_they_need():
    strong = Scripted()
    draft("always", strong, lookback=0, layers=3)
    assert strong.reads[0] == [0]
    assert max(map(len, strong.reads)) <= 2
    read = [node for one in strong.reads for node in one]
    assert len(set(read)) == len(read)


def test_skip_expanded_chooses_new_parents_only():
    chosen = [node for event in of_kind(draft("always", skip_expanded=True), Reselect) for node in event.after]
    assert len(set(chosen)) == len(chosen)
    assert draft("always", skip_expanded=True).tree.size > draft("always").tree.size


def test_survive_empty_lets_a_call_follow_a_failed_skip():
    assert [event.call for event in of_kind(draft("2"), Decide)] == [False]
    decisions = of_kind(draft("2", survive_empty=True), Decide)
    assert [event.call for event in decisions] == [False, True, False]


def test_grafted_nodes_continue_a_branch_of_the_other_drafter():
    round = draft("1")
    grafts = of_kind(round, Expand)[1].grafted
    assert grafts == [node for node in range(3, 9) if round.tree.parent[node] in (1, 2)]


def test_forced_decisions_replace_the_schedule():
    policy = TreeGraft(budget=7, top_k=2, layers=3, schedule="never")
    round = Round(DraftTree(1, 10, policy.capacity), [copier(), Scripted()], limit=100, forced=[True, False, False])
    policy.draft(round)
    assert round.tree.token.tolist() == draft("1").tree.token.tolist()
    assert {event.rule for event in of_kind(round, Decide)} == {"forced"}


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["sometimes", "", "0", "6", "1,", "1;2", "-1", "1,99999"])
def test_a_schedule_that_is_none_is_refused(schedule):
    with pytest.raises(SettingError, match="always, scheduler, or layers from 1 to 5"):
        TreeGraft(schedule=schedule)


def test_the_node_cap_is_the_published_one():
    assert TreeGraft().capacity == 511
