"""The features are those of the method, told once more in plain Python."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treegraft.policies.frontier import reselect
from treegraft.scheduler.features import FEATURES, features
from treegraft.trace.records import Clock
from treegraft.tree import NEG_INF, DraftTree

LAYERS = 5


@dataclass
class State:
    """What a decision is made in."""

    tree: DraftTree
    frontier: list[int]
    layer: int
    called: list[int]
    prompt: int
    clock: Clock


@st.composite
def states(draw: st.DrawFn) -> State:
    tree = DraftTree(0, 9, 200)
    for _ in range(draw(st.integers(0, 30))):
        parent, token = draw(st.integers(0, tree.size - 1)), draw(st.integers(0, 50))
        node = tree.add(np.array([parent]), np.array([token]), np.array([0]), 0)
        tree.score[node] = draw(st.one_of(st.just(NEG_INF), st.integers(-500_000, 0)))
    frontier = draw(st.lists(st.integers(0, tree.size - 1), min_size=1, max_size=12, unique=True))
    layer = draw(st.integers(1, LAYERS))
    called = [before for before in range(1, layer) if draw(st.booleans())]
    clock = Clock(target=draw(st.integers(0, 200_000)), strong=draw(st.integers(0, 200_000)), call_budget=5)
    return State(tree, frontier, layer, called, draw(st.integers(1, 3000)), clock)


def chosen_again(state: State, lookback: int, k: int) -> list[int]:
    """The frontier that a call would choose by the scores as they are."""
    depth, score = state.tree.depth.tolist(), state.tree.score.tolist()
    wanted = {above for node in state.frontier for above in range(max(0, depth[node] - lookback), depth[node] + 1)}
    pool = [node for node in range(len(depth)) if depth[node] in wanted]
    return sorted(pool, key=lambda node: (-score[node], node))[:k]


def by_hand(state: State, reselected: list[int]) -> dict[str, float]:
    parent, depth, score = (column.tolist() for column in (state.tree.parent, state.tree.depth, state.tree.score))
    target, strong = max(state.clock.target / 1000, 1e-6), max(state.clock.strong / 1000, 1e-6)
    levels = [depth[node] for node in state.frontier]
    mean_depth = sum(levels) / len(levels)
    mean_depth_again = sum(depth[node] for node in reselected) / len(reselected)
    finite = [score[node] / 1e5 for node in reselected if score[node] != NEG_INF]
    return {
        "prompt_length": math.log(1 + state.prompt), "target_ms": target, "strong_ms": strong,
        "cost_ratio": math.log(target / strong), "layer": state.layer / LAYERS,
        "call_share": len(state.called) / LAYERS,
        **{f"called_{layer}": 1.0 if layer in state.called else 0.0 for layer in (1, 2, 3, 4, 5)},
        "frontier_depth": mean_depth,
        "frontier_leaves": sum(node not in parent for node in state.frontier) / len(state.frontier),
        "collapse_debt": max(0.0, mean_depth - mean_depth_again),
        "from_past_layers": sum(depth[node] not in levels for node in reselected) / len(reselected),
        "overlap": sum(node in state.frontier for node in reselected) / len(reselected),
        "reselected_score": sum(finite) / len(finite) if finite else 0.0}


@given(state=states(), lookback=st.integers(0, 5), k=st.integers(1, 10))
def test_features_are_those_of_the_method(state, lookback, k):
    frontier = np.array(state.frontier)
    reselected, _ = reselect(state.tree, frontier, lookback, k, np.zeros(0, np.int64))
    again = chosen_again(state, lookback, k)
    assert reselected.tolist() == again
    found = features(state.tree, frontier, reselected, layer=state.layer, layers=LAYERS, called=state.called,
                     prompt=state.prompt, clock=state.clock)
    expected = by_hand(state, again)
    assert tuple(expected) == FEATURES
    assert dict(zip(FEATURES, found.tolist(), strict=True)) == pytest.approx(expected, abs=1e-12)


def test_a_call_that_would_choose_nothing_has_no_shares():
    tree = DraftTree(0, 9, 10)
    found = features(tree, np.array([0]), np.zeros(0, np.int64), layer=1, layers=LAYERS, called=[], prompt=3,
                     clock=Clock(target=2000, strong=1000, call_budget=5))
    assert found[-4:].tolist() == [0, 0, 0, 0]
    assert np.isfinite(found).all()


def test_there_are_seventeen():
    assert len(FEATURES) == len(set(FEATURES)) == 17
