"""The layout keeps what a reader relies on: gaps, order, parents in the middle or a straight branch, the same picture
every time."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from treegraft.view.layout import GAP, tidy_rows


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[float]]:
    """Parents and sibling order of up to 60 nodes, from bushes to chains."""
    size, reach = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    parent = [-1] + [draw(st.integers(max(0, node - reach), node - 1)) for node in range(1, size)]
    return parent, [draw(st.floats(-9, 9)) for _ in range(size)]


def layers(parent: list[int], rows: list[float]) -> list[list[int]]:
    """Nodes by depth, from the topmost down."""
    depth: dict[int, int] = {-1: -1}
    found = defaultdict(list)
    for node, above in enumerate(parent):
        depth[node] = depth[above] + 1
        found[depth[node]].append(node)
    return [sorted(nodes, key=rows.__getitem__) for nodes in found.values()]


@st.composite
def branched(draw: st.DrawFn) -> tuple[list[int], list[float], set[int]]:
    """A tree with a branch from the root to one of its nodes."""
    parent, order = draw(trees())
    node, branch = draw(st.integers(0, len(parent) - 1)), set()
    while node >= 0:
        branch.add(node)
        node = parent[node]
    return parent, order, branch


@given(branched())
def test_neighbours_of_a_layer_keep_their_distance(tree):
    rows = tidy_rows(*tree)
    for layer in layers(tree[0], rows):
        assert all(rows[below] - rows[above] >= GAP - 1e-9 for above, below in pairwise(layer))


@given(branched())
def test_edges_never_cross(tree):
    parent = tree[0]
    rows = tidy_rows(*tree)
    for layer in layers(parent, rows)[1:]:
        above = [rows[parent[node]] for node in layer]
        assert above == sorted(above)


@given(branched())
def test_a_branch_runs_straight_other_parents_are_centred_and_children_in_order(tree):
    parent, order, branch = tree
    rows = tidy_rows(parent, order, branch)
    for node in range(len(parent)):
        family = sorted((child for child in range(len(parent)) if parent[child] == node), key=order.__getitem__)
        if family:
            assert [rows[child] for child in family] == sorted(rows[child] for child in family)
            middle = (rows[family[0]] + rows[family[-1]]) / 2
            own = next((rows[child] for child in family if child in branch), middle)
            assert abs(rows[node] - own) < 1e-9


@given(branched())
def test_the_top_is_zero_and_the_result_the_same_every_time(tree):
    assert min(tidy_rows(*tree)) == 0
    assert tidy_rows(*tree) == tidy_rows(*tree)


def test_a_small_tree_by_hand():
    # Two families of two leaves each: the leaves lie on rows 0 to 3, parents and root in the middle.
    assert tidy_rows([-1, 0, 0, 1, 1, 2, 2], [0] * 7) == [1.5, 0.5, 2.5, 0, 1, 2, 3]


def test_subtrees_slide_into_free_space():
    # The deep branch of the first child leaves room below its leaf for the second child's single leaf.
    rows = tidy_rows([-1, 0, 0, 1, 3, 3, 3], [0] * 7)
    assert rows[2] - rows[1] == GAP
