"""The growth loop of lookup-only drafting, with a scripted drafter and with the real one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treegraft.drafters.base import Committed, Drafter, Growth, Prefilled
from treegraft.drafters.lookup import Lookup as LookupDrafter
from treegraft.policies.base import Round
from treegraft.policies.frontier import next_frontier
from treegraft.policies.lookup import Lookup
from treegraft.tree import NEG_INF, DraftTree


class Scripted(Drafter):
    """Gives every parent `fan` children, all of them candidates with their token as match length."""

    name = "scripted"

    def __init__(self, fan: int, final: bool = False) -> None:
        self.fan, self.final, self.id, self.calls = fan, final, 0, []

    def begin(self, prefilled, max_context, capacity):
        pass

    def commit(self, tree, committed):
        pass

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        self.calls.append(parents.tolist())
        before, tokens = tree.size, np.tile(np.arange(self.fan), len(parents))
        nodes = tree.add(np.repeat(parents, self.fan), tokens, np.zeros(len(tokens), np.int64), self.id)
        nodes = nodes[nodes >= 0]
        return Growth(created=np.arange(before, tree.size), candidates=nodes, merged=np.array([], np.int64),
                      match=tree.token[nodes], final=self.final)


def draft(policy: Lookup, drafter: Drafter, root: int = 9, context: int = 1, limit: int = 10_000) -> Round:
    round = Round(DraftTree(root, context, policy.capacity), [drafter], limit)
    policy.draft(round)
    return round


def test_first_layer_keeps_all_candidates_and_later_ones_k():
    drafter = Scripted(fan=3)
    draft(Lookup(top_k=2, layers=3, budget=63), drafter)
    assert drafter.calls == [[0], [3, 2, 1], [6, 9]]


def test_capacity_ends_drafting():
    policy = Lookup(top_k=1, layers=4, budget=4)
    assert policy.capacity == 6
    drafter = Scripted(fan=5)
    assert draft(policy, drafter).tree.size == 6
    assert drafter.calls == [[0]]


def test_final_growth_ends_drafting():
    drafter = Scripted(fan=1, final=True)
    draft(Lookup(), drafter)
    assert drafter.calls == [[0]]


def test_no_candidates_end_drafting():
    drafter = Scripted(fan=0)
    assert draft(Lookup(), drafter).kept.tolist() == [0]
    assert drafter.calls == [[0]]


def test_default_capacity_is_the_published_node_cap():
    assert Lookup().capacity == 511


def test_worked_example():
    """TreeGraft with no calls: N=3, k=2, 3 layers, 7 nodes; the prompt's tokens have log-prob -0.5."""
    prompt, text = [7, 1, 2, 3, 7, 1], [7, 1, 2, 3, 7, 1, 2, 4, 7, 1]
    drafter = LookupDrafter(ngram=3)
    drafter.begin(Prefilled(prompt=prompt, root=2, tokens=np.array(text[1:7])[:, None],
                            logprobs=np.full((6, 1), -50_000)), 100, 100)
    drafter.commit(DraftTree(2, 7, 15), Committed(np.array([], np.int64), text[7:]))
    round = draft(Lookup(budget=7, top_k=2, layers=3), drafter, root=1, context=10)
    assert round.tree.token.tolist() == [1, 2, 4, 7, 3, 7]
    assert round.tree.parent.tolist() == [-1, 0, 1, 2, 1, 4]
    assert round.tree.score.tolist() == [0, -50_000] + [NEG_INF] * 4
    assert round.kept.tolist() == [0, 1, 2, 3, 4, 5]
    expand, prune = round.events
    assert (expand.stopped, expand.match, expand.source) == ([0], [2] * 5, [6, 7, 8, 3, 4])
    assert prune.kept == [0, 1, 2, 3, 4, 5]


def test_expand_events_say_which_scores_rose():
    """Layer 1 copies 2 4 5, where 4 has no score yet; layer 2 finds 4 8 after another 2 and scores 4."""
    drafter = LookupDrafter(ngram=3)
    empty = np.zeros((0, 0), np.int64)
    prompt = [1, 2, 4, 5, 1, 3, 6, 7, 2, 4, 8, 9]
    drafter.begin(Prefilled(prompt=prompt, root=1, tokens=empty, logprobs=empty), 100, 100)
    first, second, _ = draft(Lookup(top_k=2, layers=3), drafter, root=1, context=13).events
    assert (first.nodes, first.scores) == ([1, 2, 3, 4, 5, 6], [0, None, None, 0, None, None])
    assert (first.raised, first.raised_scores) == ([], [])
    assert (second.parents, second.nodes, second.scores) == ([1, 4], [7], [None])
    assert (second.raised, second.raised_scores) == ([5], [0])
    assert second.merged == [2, 3, 5, 6]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 8)), max_size=12), st.integers(1, 2), st.integers(1, 4))
def test_next_frontier_ranks_each_candidate_once(candidates, layer, k):
    tree = DraftTree(0, 1, 9)
    scores = np.array([0, 0, -5, NEG_INF, -5, -1, NEG_INF, -2])
    tree.add(np.zeros(8, np.int64), np.arange(8), scores, 0)
    nodes = np.array([node for _, node in candidates], np.int64)
    growth = Growth(created=nodes, candidates=nodes, merged=nodes,
                    match=np.array([match for match, _ in candidates], np.int64))
    best: dict[int, int] = {}
    for match, node in candidates:
        best[node] = max(best.get(node, 0), match)
    ranked = sorted(best, key=lambda node: (-best[node], -tree.score[node], node))
    assert next_frontier(tree, growth, layer, k).tolist() == (ranked if layer == 1 else ranked[:k])


@pytest.mark.parametrize(("limit", "kept", "note"), [
    (20, 20, ""), (19, 19, "budget 63 clipped to 19: the context ends"),
    (0, 0, "budget 63 clipped to 0: the context ends")])
def test_a_tree_is_clipped_only_where_its_nodes_do_not_fit(limit, kept, note):
    round = draft(Lookup(top_k=4, layers=2), Scripted(4), limit=limit)
    assert (len(round.kept) - 1, round.note) == (kept, note)
    assert round.events[-1].budget == (min(63, limit) if note else 63)


def test_a_clipped_tree_keeps_the_drafters_own_note():
    round = Round(DraftTree(9, 1, 100), [Scripted(4)], 2, note="the drafter is tired")
    Lookup(top_k=4, layers=1).draft(round)
    assert round.note == "the drafter is tired; budget 63 clipped to 2: the context ends"
