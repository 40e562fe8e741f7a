"""The curve over a setting's range: its knee, and what its sentences say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treegraft.analysis.sweep import halve
from treegraft.view.whatif_charts import Point, before_knee, knee, near_best, reading

TAUS = st.lists(st.integers(1, 500).map(lambda tau: tau / 100), min_size=1, max_size=12)


def points_of(taus: list[float | None]) -> list[Point]:
    return [Point(10 * place, 1.0, tau) for place, tau in enumerate(taus)]


@given(TAUS)
def test_the_knee_is_the_smallest_value_near_the_best(taus):
    points = points_of(taus)
    enough = 0.98 * max(taus)
    found = knee(points, "tokens_per_second")
    assert found == next(point for point in points if point.tokens_per_second >= enough)
    gap = before_knee(points, "tokens_per_second")
    assert gap == ((found.value - 10, found.value) if found.value else None)
    assert near_best(points, "tokens_per_second") == pytest.approx(enough)


@given(st.integers(-500, 500), st.integers(1, 500), st.integers(1, 500))
def test_halving_finds_the_smallest_whole_number_that_reaches(low, before, after):
    first = low + before
    assert halve(low, first + after, int, 1, lambda value: value >= first) == first


@given(st.floats(-100, 100), st.floats(0.02, 50))
def test_halving_comes_as_close_as_a_step(low, width):
    first = low + width / 3
    found = halve(low, low + width, float, 0.01, lambda value: value >= first)
    assert first <= found <= first + 0.01


def test_the_sentence_says_that_the_knee_is_of_the_values_tried():
    assert reading([Point(-3, 1.0, 10.0), Point(5, 1.0, 19.9), Point(7, 1.0, 20.0)], "tokens_per_second", "threshold",
                   "tokens/s") == (
        "tokens/s goes from 10.00 (at threshold −3) to 20.00 (at 7). The knee, the smallest of the 3 values tried that "
        "comes within 2% of the best, is 5.")


@pytest.mark.parametrize(("speeds", "told"), [
    ([None, None], "tokens/s is known at 0 values of budget tried."),
    ([None, 3.0], "tokens/s is known at 1 value of budget tried (10: 3.00)."),
    ([3.0, None, 3.0], "tokens/s is 3.00 at all 2 values of budget tried, from 0 to 20."),
])
def test_flat_and_missing_curves(speeds, told):
    assert reading(points_of(speeds), "tokens_per_second", "budget", "tokens/s") == told
