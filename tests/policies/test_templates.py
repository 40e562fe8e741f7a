"""Templates: the sizes and paths that are printed, nesting at every budget, and rank paths that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treegraft.policies.templates import (
    ENVELOPE,
    MOST_NODES,
    STAGES,
    envelope,
    from_levels,
    from_paths,
    scaled,
)
from treegraft.settings import SettingError


def written(template) -> list[str]:
    return ["".join(map(str, path)) for path in template.paths[1:]]


# --- the paper's ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stage", "drafted", "levels"), [
    ("d0", 8, (8, 10, 8, 6, 5, 4, 4, 4, 3)), ("d1", 24, (6, 7, 5, 4, 4, 3, 3, 2, 2)),
    ("d5", 40, (4, 3, 3, 2, 2, 2, 2, 1, 1))])
def test_the_stages_have_the_sizes_of_the_paper(stage, drafted, levels):
    found = envelope(60)
    assert found.stage(stage).levels == levels
    assert (found.drafted[stage], found.retrieved[stage]) == (drafted, 60 - drafted)


def test_the_envelope_has_the_sizes_of_the_paper():
    assert envelope(60).template.levels == (8, 16, 14, 11, 8, 7, 6, 5, 5)
    assert envelope(60).template.size == 80


def test_the_paths_of_d5():
    paths = written(envelope(60).stage("d5"))
    deep = [zeros * "0" + last for zeros in (3, 4, 5, 6) for last in "01"]
    assert sorted(paths) == sorted(["0", "1", "2", "3", "00", "01", "10", "000", "001", "010", *deep, 8 * "0", 9 * "0"])


def test_the_paths_of_d1():
    paths = written(envelope(60).stage("d1"))
    wanted = [*"012345", *["00", "01", "10", "02", "20", "03", "30"], *["000", "001", "010", "100", "002"],
              *["0000", "0001", "0010", "0100"], *["00000", "00001", "00010", "00100"],
              *(zeros * "0" + tail for zeros in (3, 4) for tail in ("000", "001", "010")),
              *(zeros * "0" + last for zeros in (7, 8) for last in "01")]
    assert sorted(paths) == sorted(wanted)


def test_the_all_zero_path_goes_to_the_last_level():
    assert (0,) * 9 in envelope(60).stage("d5").paths


# --- every budget ---------------------------------------------------------------------------------------------------


@given(budget=st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_stages_add_up_and_lie_within_one_another_at_every_budget(budget):
    found = envelope(budget)
    stages = [found.stage(name) for name in STAGES]
    for name, template in zip(STAGES, stages, strict=True):
        assert template.size + found.drafted[name] == budget
    for inner, outer in zip(stages, [*stages[1:], found.template], strict=True):
        assert set(inner.paths) <= set(outer.paths)
    assert sorted(found.order.tolist()) == list(range(1, found.template.size + 1))
    place = {node: number for number, node in enumerate([0, *found.order.tolist()])}
    assert all(place[found.template.parent[node]] < place[node] for node in found.order.tolist())


@given(budget=st.integers(1, 1023), stage=st.sampled_from(list(STAGES)))
@settings(max_examples=40, deadline=None)
def test_scaled_levels_add_up_and_can_be_built(budget, stage):
    sizes = scaled(STAGES[stage].levels, budget)
    assert sum(sizes) == budget
    assert from_levels(sizes).levels == tuple(size for size in sizes if size)


def test_levels_keep_their_proportions():
    assert scaled(ENVELOPE, 160)[1:] == pytest.approx([2 * size for size in ENVELOPE[1:]], abs=2)
    assert scaled(ENVELOPE, 160)[0] == 8


def test_levels_without_room_are_refused():
    with pytest.raises(ValueError, match="level 2 has 9 nodes; allowed: 0 to 8"):
        from_levels((1, 9))


# --- rank paths -----------------------------------------------------------------------------------------------------


def test_paths_are_numbered_level_by_level():
    template = from_paths([[1], [0, 2], [0]])
    assert template.parent.tolist() == [-1, 0, 0, 1]
    assert template.rank.tolist() == [-1, 0, 1, 2]
    assert template.depth.tolist() == [0, 1, 1, 2]
    assert template.paths == [(), (0,), (1,), (0, 2)]
    assert (template.size, template.levels) == (3, (2, 1))


def test_no_paths_are_a_root_alone():
    assert from_paths([]).size == 0


@pytest.mark.parametrize(("paths", "words"), [
    ([[0, 1]], r"not \[0\], which it continues"), ([[0], [0]], r"\[0\] twice"), ([[8]], "ranks from 0 to 7"),
    ([[-1]], "ranks from 0 to 7"), ([[]], "one or more ranks"), ([["0"]], "one or more ranks"),
    ([[True]], "one or more ranks"), ([5], "one or more ranks"), (["00"], "one or more ranks"),
    ([[0]] * (MOST_NODES + 1), "allowed: 4096")])
def test_paths_that_are_no_tree_are_refused(paths, words):
    with pytest.raises(SettingError, match=words):
        from_paths(paths)


def test_columns_are_integers():
    assert from_paths([[0]]).parent.dtype == np.int64
