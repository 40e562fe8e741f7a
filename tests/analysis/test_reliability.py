"""Calibration bins, and the trend along the text."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treegraft.analysis.reached import NodeRow, RoundRow
from treegraft.analysis.reliability import FEWEST, reliability
from treegraft.analysis.trend import student, trend


def node(q: float | None, accepted: bool, place: int = 0, origin: str = "lm") -> NodeRow:
    return NodeRow(place=(0, place), token=1, before=2, origin=origin, accepted=accepted, p=0.25,
                   q={} if q is None else {"lm": q})


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]) | st.floats(0, 1), st.booleans()), min_size=1,
                max_size=300))
def test_bins_hold_every_node_once_and_do_not_overlap(pairs):
    (found,) = reliability([node(q, accepted, place) for place, (q, accepted) in enumerate(pairs)])
    assert found.count == len(pairs) == sum(one.count for one in found.bins)
    assert sum(one.accepted for one in found.bins) == sum(accepted for _, accepted in pairs)
    for below, above in zip(found.bins, found.bins[1:], strict=False):
        assert below.high < above.low
    for one in found.bins:
        assert one.low <= one.q * (1 + 1e-9)
        assert one.q <= one.high * (1 + 1e-9)
    assert found.q == pytest.approx(sum(q for q, _ in pairs) / len(pairs))


def test_bins_of_different_values_are_equally_full():
    (found,) = reliability([node(place / 1000, False) for place in range(1000)])
    assert [one.count for one in found.bins] == [100] * 10
    (few,) = reliability([node(place / 1000, False) for place in range(3 * FEWEST)])
    assert [one.count for one in few.bins] == [FEWEST] * 3


def test_a_drafter_that_is_right_has_no_error_and_one_that_is_too_sure_has():
    random = Random(1)
    right = [node(q, random.random() < q) for q in (random.random() for _ in range(20_000))]
    (found,) = reliability(right)
    assert found.error < 0.02
    (found,) = reliability([node(0.9, place % 2 == 0) for place in range(200)])
    assert found.error == pytest.approx(0.4)
    assert len(found.bins) == 1, "nodes of the same q share a bin"


def test_nodes_without_probability_are_counted_beside():
    (found,) = reliability([node(0.5, True), node(None, True), node(None, False, origin="other")])
    assert (found.count, found.without) == (1, 1)
    assert reliability([node(None, True)]) == []


def row(position: int, accepted: int, cut: bool = False) -> RoundRow:
    return RoundRow(place=(0, position), position=position, turn=0, accepted=accepted, length=9, drafted=9, times={},
                    bonus=None if cut else (1, 2))


def test_the_slope_is_that_of_the_line():
    found = trend([row(3 * place, 100 - 2 * place) for place in range(30)])
    assert found.slope == pytest.approx(-2 / 3)
    assert found.start == pytest.approx(100)
    assert found.error == pytest.approx(0, abs=1e-9)
    assert found.verdict == "falls"


def test_noise_is_level():
    random = Random(3)
    found = trend([row(place, random.randint(0, 4)) for place in range(200)])
    assert found.verdict == "level"
    assert abs(found.slope) < 2.6 * found.error


@pytest.mark.parametrize(("freedom", "known"), [(6, 3.707), (11, 3.106), (30, 2.750), (1000, 2.581)])
def test_student_s_t_is_that_of_the_tables(freedom, known):
    assert student(freedom) == pytest.approx(known, abs=0.02)


def test_the_range_of_slopes_is_what_the_verdict_goes_by():
    random = Random(5)
    for _ in range(200):
        found = trend([row(place, random.randint(0, 4)) for place in range(random.randint(8, 30))])
        assert found.low < found.slope < found.high
        assert (found.verdict == "level") == (found.low <= 0 <= found.high)


def test_too_few_rounds_and_cut_ones():
    found = trend([row(place, 1) for place in range(5)] + [row(9, 0, cut=True)])
    assert (found.verdict, found.rounds, found.slope) == ("unknown", 5, None)
    assert trend([row(0, 1, cut=True)]).parts == []
    assert trend([row(4, 1)] * 20).verdict == "unknown", "all at one place"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 500), min_size=1, max_size=60))
def test_parts_hold_every_round_once(positions):
    found = trend([row(position, position % 3) for position in positions])
    assert sum(len(part.places) for part in found.parts) == len(positions)
    assert sum(len(part.places) * part.accepted for part in found.parts) == pytest.approx(
        sum(position % 3 for position in positions))
    assert all(part.low < part.high for part in found.parts)
    assert all(one.high == other.low for one, other in pairwise(found.parts))
