"""The matrix of successor rows: what it learns from a text and in which order, and that a trace can rebuild it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tiny
from tests.analysis import recordings
from tests.decoding import PROMPTS, assert_same_text, plain_generate, run
from treegraft.drafters.base import Committed, Prefilled, rank_prior
from treegraft.drafters.lm import LM
from treegraft.drafters.successors import EMPTY, MAX_VOCAB, WIDTH, Matrix, Rows, Successors, rebuild
from treegraft.policies import TokenRecycling, TreeGraft
from treegraft.trace import open as open_trace
from treegraft.trace.records import Expand, Learn
from treegraft.trace.writer import Writer
from treegraft.tree import NEG_INF, DraftTree

NOTHING = np.zeros((0, 0), np.int64)


def row(*tokens: int) -> list[int]:
    return [*tokens, *[EMPTY] * (WIDTH - len(tokens))]


def rows(**successors: list[int]) -> Rows:
    """Rows given as `t5=[6, 7]`."""
    tokens = sorted(int(name[1:]) for name in successors)
    return Rows(np.array(tokens, np.int32),
                np.array([row(*successors[f"t{token}"]) for token in tokens], np.int32).reshape(-1, WIDTH))


def listed(found: Rows) -> dict[int, list[int]]:
    return {token: [one for one in kept if one != EMPTY]
            for token, kept in zip(found.tokens.tolist(), found.successors.tolist(), strict=True)}


def begun(prompt=(), best=NOTHING, **options) -> Successors:
    drafter = Successors(**options)
    drafter.begin(Prefilled(list(prompt), 9, np.array(best), NOTHING), 100, 100)
    return drafter


def tree_of(parents, tokens, root: int = 1) -> DraftTree:
    tree = DraftTree(root, 10, 100)
    tree.append(np.array(parents), np.array(tokens), np.zeros(len(tokens), np.int64), 0)
    return tree


# --- what it learns -------------------------------------------------------------------------------------------------


def test_a_prompt_is_learned_in_the_order_of_the_text():
    drafter = begun([5, 6, 5], [[1, 2], [3, 4], [7, 8]])
    assert listed(drafter.known()) == {5: [7, 8], 6: [3, 4]}


def test_wider_tables_are_cut_and_narrow_ones_end_early():
    wide = begun([5], [range(10, 20)])
    assert listed(wide.known()) == {5: list(range(10, 18))}
    assert begun([5], [[1, 2]]).successors(np.array([5, 6])).tolist() == [row(1, 2), row()]


def test_a_new_text_forgets_the_last_one_but_not_the_start():
    drafter = begun([5, 7, 9], [[1], [2], [2]], start=rows(t5=[3], t8=[4]))
    drafter.begin(Prefilled([7], 9, np.array([[6]]), NOTHING), 100, 100)
    assert listed(drafter.known()) == {5: [3], 7: [6], 8: [4]}


BRANCHES = ([0, 0, 1, 2, 3, 4], [2, 3, 2, 3, 1, 2])
"""Nodes 1 to 6, tokens 2 3 2 3 1 2 under root 1: nodes 2, 4 and 6 are accepted below, 1, 3 and 5 rejected."""


@pytest.mark.parametrize(("learn", "expected"), [
    ("all", {1: [10], 2: [16], 3: [14]}), ("committed", {1: [10], 2: [16], 3: [14]})])
def test_the_newest_row_on_the_accepted_path_stays(learn, expected):
    """Token 2 is at nodes 1, 3 (rejected) and 6 (accepted last), token 3 at 2 and 4, token 1 at the root and at 5."""
    drafter = begun(learn=learn)
    best = np.arange(10, 17)[:, None]
    learned = drafter.commit(tree_of(*BRANCHES), Committed(np.array([2, 4, 6]), [3, 3, 2, 16], verified=np.arange(7),
                                                           best=best))
    assert listed(drafter.known()) == expected
    assert (learned.tokens, learned.k) == ([1, 2, 3], WIDTH)
    assert learned.successors == row(10) + row(16) + row(14)


def test_rejected_nodes_are_learned_in_node_order_and_only_where_asked():
    tree = tree_of([0, 0, 0, 1], [2, 3, 4, 3])
    told = Committed(np.zeros(0, np.int64), [9], verified=np.arange(5), best=np.arange(10, 15)[:, None])
    drafter = begun(learn="all")
    drafter.commit(tree, told)
    assert listed(drafter.known()) == {1: [10], 2: [11], 3: [14], 4: [13]}
    pure = begun(learn="committed")
    assert pure.commit(tree, told).tokens == [1]
    assert listed(pure.known()) == {1: [10]}


def test_only_rows_that_change_are_told():
    tree = tree_of([0, 0], [2, 3])
    drafter = begun([2, 3], [[11], [12]])
    told = Committed(np.array([1]), [2, 9], verified=np.array([0, 1, 2]), best=np.array([[10], [11], [13]]))
    assert drafter.commit(tree, told).tokens == [1, 3]
    assert drafter.commit(tree, told) is None


def test_nothing_is_learned_from_text_that_the_target_was_not_asked_about():
    assert begun().commit(tree_of([], []), Committed(np.zeros(0, np.int64), [4, 5])) is None


@given(st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 20), min_size=3, max_size=3)), max_size=30))
def test_a_write_is_like_writing_row_by_row(pairs):
    matrix, plain = Matrix(Rows()), {}
    for token, successors in pairs:
        plain[token] = successors
    changed = matrix.write(np.array([token for token, _ in pairs], np.int64),
                           np.array([successors for _, successors in pairs], np.int64).reshape(-1, 3))
    assert listed(matrix.known()) == plain
    assert changed.tolist() == sorted(plain)


# --- bounds ---------------------------------------------------------------------------------------------------------


def test_enormous_token_ids_get_no_row():
    drafter = begun([2**31 - 1, MAX_VOCAB, MAX_VOCAB - 1], [[1], [2], [3]])
    assert listed(drafter.known()) == {MAX_VOCAB - 1: [3]}
    assert drafter.successors(np.array([2**31 - 1, MAX_VOCAB])).tolist() == [row(), row()]


def test_tokens_that_other_models_lack_are_left_out_of_the_start():
    start = rows(t1=[5, 9, 6], t2=[9], t9=[1])
    assert listed(start.within(9)) == {1: [5, 6]}
    assert listed(begun(start=start, vocab=9).known()) == {1: [5, 6]}


def test_the_start_is_named_by_its_contents():
    assert begun().memory == ""
    one, other = begun(start=rows(t1=[5])), begun(start=rows(t1=[6]))
    assert one.memory.startswith("1 rows, sha256 ")
    assert one.memory != other.memory
    assert one.memory == begun(start=rows(t1=[5])).memory


@pytest.mark.parametrize(("learn", "state"), [("all", "history"), ("committed", "context")])
def test_it_depends_on_the_text_alone_where_it_learns_from_that_alone(learn, state):
    assert Successors(learn=learn).state == state


# --- growing trees --------------------------------------------------------------------------------------------------

KNOWN = {"t1": [2, 3, 4], "t2": [3], "t4": [1, 2]}


def test_growth_takes_the_first_successors_of_every_parent():
    drafter = begun(start=rows(**KNOWN))
    tree = DraftTree(1, 10, 100)
    first = drafter.grow(tree, np.array([0]), 1, 2)
    assert (tree.token.tolist(), first.rank, first.stopped) == ([1, 2, 3], [0, 1], [])
    second = drafter.grow(tree, np.array([1, 2]), 2, 2)
    assert (tree.parent.tolist()[3:], tree.token.tolist()[3:], second.rank) == ([1], [3], [0])
    assert (second.stopped, second.candidates.tolist(), second.match.tolist()) == ([2], [3], [0])
    prior = rank_prior(WIDTH)
    assert tree.score.tolist() == [0, prior[0], prior[1], 2 * prior[0]]


def test_nodes_of_others_are_merged_and_full_trees_take_no_more():
    drafter = begun(start=rows(**KNOWN))
    tree = DraftTree(1, 10, 3)
    tree.add(np.array([0]), np.array([3]), np.array([-7]), 1)
    growth = drafter.grow(tree, np.array([0]), 1, 20)
    assert (growth.created.tolist(), growth.merged.tolist(), growth.candidates.tolist()) == ([2], [1], [2, 1])
    assert (tree.token.tolist(), growth.rank) == ([1, 3, 2], [0])
    assert tree.score.tolist() == [0, -7, rank_prior(WIDTH)[0]]


def test_below_a_node_without_a_score_nothing_has_one():
    drafter = begun(start=rows(**KNOWN))
    tree = DraftTree(1, 10, 9)
    tree.add(np.array([0]), np.array([4]), np.array([NEG_INF]), 1)
    drafter.grow(tree, np.array([1]), 2, 2)
    assert tree.score.tolist() == [0, NEG_INF, NEG_INF, NEG_INF]


def test_single_ranks_can_be_followed():
    drafter = begun(start=rows(**KNOWN))
    tree = DraftTree(1, 10, 9)
    nodes, growth = drafter.follow(tree, np.array([0, 0, 0]), np.array([2, 5, WIDTH]))
    assert (nodes.tolist(), tree.token.tolist(), growth.rank) == ([1, -1, -1], [1, 4], [2])


def test_the_prior_is_a_distribution_that_falls_with_the_rank():
    prior = rank_prior(WIDTH)
    assert np.exp(prior / 1e5).sum() == pytest.approx(1, abs=1e-4)
    assert (np.diff(prior) < 0).all()
    assert prior[0] - prior[1] == pytest.approx(1.3 * np.log(2) * 1e5, abs=1)


# --- with models ----------------------------------------------------------------------------------------------------

WARM = rows(**{f"t{token}": [token + 1, 3] for token in range(3, 50, 2)})


@pytest.mark.parametrize("learn", ["all", "committed"])
@pytest.mark.parametrize("schedule", ["never", "always", "1,3"])
def test_treegraft_with_it_as_weak_drafter_writes_what_plain_decoding_writes(learn, schedule):
    model, accepted = tiny.target("llama"), 0
    policy = TreeGraft(budget=20, top_k=3, schedule=schedule)
    for prompt in PROMPTS[1:3]:
        drafters = [Successors(learn=learn), LM(model=tiny.drafter("llama"))]
        drafters[1].id = 1
        output, steps, _ = run(recordings.target(), policy, drafters, prompt, 24)
        assert_same_text(model, prompt, output, plain_generate(model, prompt, 24))
        accepted += sum(len(step.path) for step in steps)
        assert any(event.rank for step in steps for event in step.round.events
                   if isinstance(event, Expand) and event.drafter == 0) or schedule == "always"
    assert accepted > 0


def test_a_call_rescores_what_it_proposed():
    policy = TreeGraft(budget=20, top_k=3, layers=2, schedule="2")
    strong = LM(model=tiny.drafter("llama"))
    strong.id = 1
    drafters = [Successors(), strong]
    _, steps, _ = run(recordings.target(), policy, drafters, PROMPTS[2])
    tree = max((step.round.tree for step in steps), key=lambda tree: tree.size)
    assert (tree.score > NEG_INF).all()


@given(prompt=st.lists(st.integers(3, tiny.VOCAB - 1), min_size=1, max_size=24),
       learn=st.sampled_from(["all", "committed"]), warm=st.booleans(), schedule=st.sampled_from(["", "never", "1,3"]))
@settings(max_examples=12, deadline=None)
def test_the_matrix_can_be_rebuilt_from_the_trace(prompt, learn, warm, schedule):
    """After runs of TreeGraft with a schedule, and of Token Recycling."""
    start = WARM if warm else Rows()
    drafter, strong = Successors(learn=learn, start=start), LM(model=tiny.drafter("llama"))
    policy = TreeGraft(budget=15, top_k=3, layers=3, schedule=schedule) if schedule else TokenRecycling()
    found = recordings.recorded_with([drafter, strong][:len(policy.roles)], prompt, policy, new_tokens=16).run
    assert any(isinstance(event, Learn) for record in found.records for event in record.events)
    again = rebuild(found, 0, start)
    assert listed(again) == listed(drafter.known())
    assert listed(rebuild(found, 0)) != listed(again) or not warm


def test_rebuilding_works_from_a_file(tmp_path):
    drafter, path = Successors(), tmp_path / "run.jsonl"
    with Writer(path) as writer:
        policy = TreeGraft(budget=9, top_k=3, schedule="never")
        recordings.recorded_with([drafter, LM(model=tiny.drafter("llama"))], PROMPTS[2], policy, writer=writer)
    assert listed(rebuild(open_trace(path).runs[0], 0)) == listed(drafter.known())
