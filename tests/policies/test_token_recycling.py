"""Token Recycling: the published tree, filled from rows, and what it writes."""

from __future__ import annotations

import numpy as np
import pytest

from tests import tiny
from tests.analysis import recordings
from tests.decoding import PROMPTS, assert_same_text, plain_generate, run
from tests.policies.ranking import ScriptedRows, after
from treegraft.drafters.base import rank_prior
from treegraft.drafters.successors import Rows, Successors
from treegraft.policies.base import Round
from treegraft.policies.token_recycling import TEMPLATE, TokenRecycling
from treegraft.settings import SettingError
from treegraft.trace.records import Expand, Prune
from treegraft.tree import DraftTree

STEPS = (1, 2, 3, 4, 5, 6, 7, 8)
TOKENS = 100


def draft(rows=None, *, limit: int = 1000, **changed) -> Round:
    policy = TokenRecycling(**changed)
    drafter = ScriptedRows(after(*STEPS, tokens=TOKENS) if rows is None else rows, id=0)
    round = Round(DraftTree(1, 10, policy.capacity), [drafter], limit=limit)
    policy.draft(round)
    return round


def rank_paths(round: Round) -> list[tuple[int, ...]]:
    """The ranks on the way to every node; the rows of `after` make a token's rank its distance from its parent's."""
    tree = round.tree
    found: list[tuple[int, ...]] = [()]
    for node in range(1, tree.size):
        parent = int(tree.parent[node])
        found.append((*found[parent], int(tree.token[node] - tree.token[parent]) % TOKENS - 1))
    return found


def test_the_tree_has_the_published_levels():
    assert (TEMPLATE.size, TEMPLATE.levels) == (80, (8, 21, 25, 15, 8, 3))


@pytest.mark.parametrize("path", [
    (7,), (1, 3), (2, 2), (7, 0), (0, 7, 0), (0, 2, 1), (1, 0, 1), (0, 0, 0, 4), (0, 0, 1, 1), (3, 0, 0, 0),
    (0, 0, 0, 2, 0), (0, 0, 0, 0, 0, 1), (0, 0, 0, 1, 0, 0)], ids=str)
def test_the_tree_ends_where_the_published_one_does(path):
    """Each of these is the last of the published tree below its parent."""
    assert path in TEMPLATE.paths
    assert (*path[:-1], path[-1] + 1) not in TEMPLATE.paths


def test_full_rows_fill_the_tree_level_by_level():
    round = draft()
    assert sorted(rank_paths(round)) == sorted(TEMPLATE.paths)
    *grown, prune = round.events
    assert [len(event.nodes) for event in grown] == [8, 21, 25, 15, 8, 3]
    assert [event.layer for event in grown] == [1, 2, 3, 4, 5, 6]
    assert grown[1].parents == list(range(1, 9))
    ranks = [rank for event in grown for rank in event.rank]
    assert ranks == [path[-1] for path in rank_paths(round)[1:]]
    assert type(prune) is Prune
    assert (prune.budget, len(prune.kept)) == (80, 81)
    assert round.note == ""


def test_a_row_is_asked_for_all_nodes_of_a_level_at_once():
    drafter = ScriptedRows(after(*STEPS, tokens=TOKENS), id=0)
    TokenRecycling().draft(Round(DraftTree(1, 10, 81), [drafter], limit=100))
    assert len(drafter.asked) == 6


def test_empty_rows_leave_their_subtrees_out():
    """Only the root and its best successor have rows, and those are short."""
    round = draft({1: [2, 3, 4], 2: [5]})
    assert round.tree.token.tolist() == [1, 2, 3, 4, 5]
    first, second, third, _ = round.events
    assert (first.stopped, second.stopped, second.nodes) == (None, [2, 3], [4])
    assert (third.parents, third.nodes, third.stopped) == ([4], [], [4])
    assert round.kept.tolist() == [0, 1, 2, 3, 4]


def test_without_the_roots_row_the_target_decodes_alone():
    round = draft({})
    assert (round.kept.tolist(), [type(event) for event in round.events]) == ([0], [Expand, Prune])
    assert round.events[0].stopped == [0]


def test_a_smaller_budget_keeps_the_best_ranks():
    round = draft(budget=12)
    prior, paths = rank_prior(8), rank_paths(round)
    value = {node: sum(prior[rank] for rank in path) for node, path in enumerate(paths)}
    worst = min(value[node] for node in round.kept.tolist())
    assert len(round.kept) == 13
    assert all(value[node] <= worst for node in set(range(81)) - set(round.kept.tolist()))
    assert round.tree.score.tolist() == [value[node] for node in range(81)]


def test_near_the_end_of_the_context_it_verifies_fewer():
    round = draft(limit=5)
    assert (len(round.kept) - 1, round.note) == (5, "budget 80 clipped to 5: the context ends")


@pytest.mark.parametrize("budget", [0, 81])
def test_the_tree_has_no_more_nodes(budget):
    with pytest.raises(SettingError, match="allowed: 1 to 80"):
        TokenRecycling(budget=budget)


START = Rows(np.arange(3, 60, dtype=np.int32),
             np.array([[(token + step) % 60 for step in range(1, 9)] for token in range(3, 60)], np.int32))


@pytest.mark.parametrize("learn", ["all", "committed"])
@pytest.mark.parametrize("start", [Rows(), START], ids=["cold", "warm"])
def test_output_equals_plain_greedy_decoding(learn, start):
    model, accepted = tiny.target("llama"), 0
    for prompt in PROMPTS[1:3]:
        drafter = Successors(learn=learn, start=start)
        output, steps, _ = run(recordings.target(), TokenRecycling(), [drafter], prompt, 24)
        assert_same_text(model, prompt, output, plain_generate(model, prompt, 24))
        accepted += sum(len(step.path) for step in steps)
        assert sum(len(step.learned) for step in steps) > 0
    assert accepted > 0


def test_rows_that_are_committed_alone_make_rounds_depend_on_the_text_alone():
    """A run that starts behind the output of another one drafts the same tree there."""
    policy, prompt = TokenRecycling(), PROMPTS[2]
    output, steps, _ = run(recordings.target(), policy, [Successors(learn="committed")], prompt, eos=())
    place = next(number for number, step in enumerate(steps) if number > 2 and len(step.round.kept) > 3)
    tree = steps[place].round.tree
    before = [*prompt, *output][: tree.context - 1]
    _, again, _ = run(recordings.target(), policy, [Successors(learn="committed")], before, 2, eos=())
    assert again[0].round.tree.token.tolist() == tree.token.tolist()
    assert again[0].round.tree.parent.tolist() == tree.parent.tolist()
