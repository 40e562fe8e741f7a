"""Where gates stand and how high: areas under the curve, Youden's threshold, and the depths that are chosen."""

from __future__ import annotations

import numpy as np
import pytest

from treegraft.analysis.gates import Readings, auc, candidates, choose_depths, gates_text, with_thresholds, youden
from treegraft.policies.graft import Graft


def labels(*values: int) -> np.ndarray:
    return np.array(values, bool)


@pytest.mark.parametrize(("values", "true", "expected"), [
    ([0.1, 0.2, 0.8, 0.9], labels(0, 0, 1, 1), 1.0), ([0.9, 0.8, 0.2, 0.1], labels(0, 0, 1, 1), 0.0),
    ([0.5, 0.5, 0.5, 0.5], labels(0, 0, 1, 1), 0.5), ([0.1, 0.4, 0.35, 0.8], labels(0, 0, 1, 1), 0.75),
    ([0.3, 0.3, 0.9], labels(0, 1, 1), 0.75)])
def test_the_area_under_the_curve(values, true, expected):
    assert auc(np.array(values), true) == pytest.approx(expected)


@pytest.mark.parametrize("true", [labels(1, 1), labels(0, 0)])
def test_one_kind_alone_has_no_area(true):
    assert auc(np.array([0.1, 0.2]), true) is None


def test_youdens_threshold_separates_best():
    values, true = np.array([0.1, 0.2, 0.3, 0.6, 0.25, 0.7]), labels(0, 0, 0, 1, 1, 1)
    tau = youden(values, true)
    goodness = {t: (true & (values > t)).sum() / 3 + (~true & (values <= t)).sum() / 3 for t in values}
    assert goodness[tau] == max(goodness.values())
    assert tau == 0.3


def readings(good: set[int], depths: int = 9, positions: int = 60) -> Readings:
    """Confidence that tells perfectly whether more is accepted at the `good` depths, and nothing elsewhere."""
    random = np.random.default_rng(3)
    accepted = random.integers(0, depths + 1, positions)
    found = random.random((positions, depths))
    for depth in good:
        found[:, depth] = 0.4 + 0.2 * (accepted > depth)
    return Readings(found, accepted)


@pytest.mark.parametrize(("good", "expected", "text"), [
    (set(), {}, "0,1,5"), ({0, 3, 6}, {"d0": 0, "d1": 3, "d5": 6}, "0,3,6"), ({1, 2}, {"d1": 1}, "0,1,5"),
    ({5, 8}, {"d5": 5}, "0,1,5")])
def test_each_template_gets_the_best_depth_that_suits_it(good, expected, text):
    chosen = choose_depths(readings(good))
    assert chosen == expected
    assert gates_text(chosen) == text


def test_trees_without_room_for_a_gate_get_none():
    assert choose_depths(readings({0}, depths=1)) == {}
    assert set(choose_depths(readings({0, 1, 2}, depths=3))) == {"d0", "d1"}


def test_levels_that_were_not_drafted_are_left_out():
    found = readings({0})
    found.confidence[:10, 0] = np.nan
    values, beyond = found.at(0)
    assert len(values) == len(beyond) == 50
    assert auc(values, beyond) == 1.0


def test_thresholds_that_are_tried():
    found = readings({1, 5})
    tried = candidates(found, choose_depths(found))
    assert (0.0, 0.0, 0.0) in tried
    assert {taus[0] for taus in tried} == {0.0}
    assert (0.0, 0.4, 0.4) in tried
    policy = with_thresholds(Graft(), "0,1,5", (0.0, 0.4, 0.4))
    assert policy.thresholds == (0.0, 0.4, 0.4)
