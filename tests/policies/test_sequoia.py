"""Sequoia: the dynamic programme against all trees there are, and what costs make of it."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies.random_drafters import draft
from tests.policies.scripted import Scripted
from treegraft.policies import Sequoia
from treegraft.policies.base import Constants
from treegraft.policies.best_shape import best_trees
from treegraft.policies.sequoia import MEASURED
from treegraft.settings import SettingError
from treegraft.trace.records import TARGET, CostCurve

RATES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=3).map(tuple)


@functools.cache
def all_trees(nodes: int, depth: int, most: int) -> list[tuple]:
    """Every ordered tree with so many nodes, no deeper than `depth`, as the tuple of its root's subtrees."""
    if nodes == 1:
        return [()]
    if depth == 0:
        return []
    found = []
    for count in range(1, min(most, nodes - 1) + 1):
        for cuts in itertools.combinations(range(1, nodes - 1), count - 1):
            sizes = np.diff([0, *cuts, nodes - 1]).tolist()
            found += itertools.product(*(all_trees(size, depth - 1, most) for size in sizes))
    return found


def worth(tree: tuple, rates: tuple[float, ...]) -> float:
    return 1 + sum(rate * worth(subtree, rates) for rate, subtree in zip(rates, tree, strict=False))


def worth_of(template, rates) -> float:
    return sum(np.prod([rates[rank] for rank in path]) for path in template.paths)


@given(rates=RATES, nodes=st.integers(2, 6), depth=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_no_tree_is_better_than_the_programmes(rates, nodes, depth):
    table = best_trees(rates, nodes, depth)
    for size in range(2, nodes + 1):
        trees = all_trees(size, depth, len(rates))
        if not trees:
            assert table.value[depth, size] == -np.inf
            continue
        best = max(worth(tree, rates) for tree in trees)
        assert table.value[depth, size] == pytest.approx(best)
        shape = table.shape(depth, size)
        assert shape.size == size - 1
        assert shape.depth.max() <= depth
        assert worth_of(shape, rates) == pytest.approx(best)


@given(rates=st.lists(st.floats(0.01, 0.3), min_size=1, max_size=4).map(lambda one: tuple(sorted(one)[::-1])))
@settings(max_examples=20, deadline=None)
def test_falling_rates_make_the_tree_of_the_best_paths(rates):
    paths = [np.prod(path) for length in range(1, 5) for path in itertools.product(rates, repeat=length)]
    nodes = min(12, len(paths))
    assert best_trees(rates, nodes + 1, 4).value[4, nodes + 1] == pytest.approx(1 + sum(sorted(paths)[::-1][:nodes]))


def test_a_worked_example():
    """Rates .5 .3: five nodes are worth .5 .3 .25 .15 .15, and a third layer would bring .125 at best."""
    template = Sequoia(budget=5, depth=3, acceptance="[0.5, 0.3]").template(Constants(), 0)
    assert template.paths == [(), (0,), (1,), (0, 0), (0, 1), (1, 0)]
    assert best_trees((0.5, 0.3), 6, 3).value[3, 6] == pytest.approx(2.35)


def test_the_whole_budget_is_drafted_where_depth_and_rates_allow():
    for rates in MEASURED.values():
        assert sum(rates) <= 1
        assert list(rates) == sorted(rates, reverse=True)
    assert draft(Sequoia(), Scripted(id=0)).kept.tolist() == list(range(64))
    assert Sequoia(budget=9, depth=2, acceptance="[0.5, 0.1]").template(Constants(), 0).levels == (2, 4)


# --- costs ----------------------------------------------------------------------------------------------------------


def costs(draft_: list[tuple[int, int]], verify: list[tuple[int, int]]) -> Constants:
    return Constants(costs=[CostCurve(model=TARGET, context=1, points=verify),
                            CostCurve(model=0, context=1, points=draft_)])


@pytest.mark.parametrize(("drafting", "verifying", "levels"), [
    ([(1, 1), (64, 1)], [(1, 1000), (64, 1000)], (2, 4, 2)), ([(1, 1), (64, 1)], [(1, 1000), (64, 64_000)], (1,)),
    ([(1, 900), (64, 900)], [(1, 1000), (64, 1000)], (2,))])
def test_costs_choose_the_size(drafting, verifying, levels):
    """Free drafting and a flat target: all 8 nodes; a steep target: one; dear drafting: one layer."""
    policy = Sequoia(budget=8, depth=3, acceptance="[0.5, 0.3]", size="fastest")
    assert policy.template(costs(drafting, verifying), 0).levels == levels


@given(rates=st.lists(st.floats(0.01, 0.4), min_size=1, max_size=2).map(tuple), draft_=st.integers(1, 2000),
       verify=st.integers(1, 200))
@settings(max_examples=30, deadline=None)
def test_no_other_size_is_faster(rates, draft_, verify):
    constants = costs([(1, draft_), (8, 2 * draft_)], [(1, 1000), (8, 1000 + 7 * verify)])
    policy = Sequoia(budget=7, depth=4, acceptance=str(list(rates)), size="fastest")
    curve = {one.model: np.array(one.points, float).T for one in constants.costs}

    def time(depth: int, nodes: int, tokens: float) -> float:
        return (depth * np.interp(nodes / depth, *curve[0]) + np.interp(nodes, *curve[TARGET])) / tokens

    chosen = policy.template(constants, 0)
    table = best_trees(rates, 8, 4).value
    best = min(time(depth, nodes, table[depth, nodes]) for depth in range(1, 5) for nodes in range(2, 9)
               if table[depth, nodes] > 0)
    ours = time(int(chosen.depth.max()), chosen.size + 1, worth_of(chosen, rates))
    assert ours == pytest.approx(best, rel=0.02)


def test_costs_that_were_not_measured_are_asked_for():
    with pytest.raises(SettingError, match="costs of forwards must be measured"):
        draft(Sequoia(size="fastest"), Scripted(id=0))
    assert Sequoia(size="fastest").needs_costs
    assert not Sequoia().needs_costs


# --- rates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["other", "[]", "[0.5, 0.6]", "[-0.1]", "[2]", '["a"]', "[true]", "[0, 0.5]", "[NaN]",
                                  "[1e400]", str([0.01] * 33)])
def test_texts_that_are_no_rates(text):
    with pytest.raises(SettingError, match=r"acceptance was .* allowed: smollm2-eagle3, .*a list of 1 to 32 numbers"):
        Sequoia(acceptance=text)
