"""The report against decisions counted by hand."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from tests.scheduler.examples import random_scheduler, rows, ruled, with_margin
from treegraft.scheduler.dataset import Dataset, DatasetError
from treegraft.scheduler.report import BINS, calibrate, report
from treegraft.view.scheduler_tables import scheduler_report


class Predicts:
    """Says the margin that is written in the first feature."""

    name = "predicts"

    def margins(self, features: np.ndarray) -> np.ndarray:
        return features[:, 0]


def decided(predicted: list[float], actual: list[float], depth: list[int]) -> Dataset:
    count = len(actual)
    seen = np.zeros((count, 17))
    seen[:, 0] = predicted
    return Dataset(np.arange(count) // 2, np.zeros(count, int), np.array(depth), seen, np.array(actual))


MADE = decided(predicted=[5, -1, 2, -3, 0], actual=[4.0, -2.0, -6.0, 8.0, -10.0], depth=[1, 1, 2, 2, 2])


def test_decisions_counted_by_hand():
    found = report(Predicts(), MADE)
    assert (found.prompts, found.overall.states) == (3, 5)
    assert found.overall.agreement == pytest.approx(3 / 5)
    assert found.overall.share == pytest.approx((4 + 2 + 10) / 30)
    assert (found.overall.calls, found.overall.oracle_calls) == (pytest.approx(2 / 5), pytest.approx(2 / 5))
    first, second = found.layers
    assert (first.layer, first.states, first.agreement, first.share) == (1, 2, 1, 1)
    assert (second.layer, second.states, second.agreement) == (2, 3, pytest.approx(1 / 3))
    assert second.share == pytest.approx(10 / 24)
    assert (second.calls, second.oracle_calls) == (pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_regret_counted_by_hand():
    regret = report(Predicts(), MADE).regret
    assert regret.scheduler == pytest.approx((6 + 8) / 5)
    assert regret.always == pytest.approx((2 + 6 + 10) / 5)
    assert regret.never == pytest.approx((4 + 8) / 5)
    assert regret.share(regret.scheduler) == pytest.approx(report(Predicts(), MADE).overall.share)
    assert regret.share(regret.never) == pytest.approx(18 / 30)


def test_the_threshold_is_exceeded_not_reached():
    assert report(Predicts(), MADE, threshold=2).overall.calls == pytest.approx(1 / 5)
    assert report(Predicts(), MADE, threshold=1.9).overall.calls == pytest.approx(2 / 5)


@pytest.mark.parametrize(("threshold", "schedule"), [(-1e9, "always"), (1e9, "never")])
def test_thresholds_at_the_ends_are_the_fixed_schedules(threshold, schedule):
    found = report(random_scheduler(), ruled(5, 40), threshold=threshold)
    assert found.regret.scheduler == pytest.approx(getattr(found.regret, schedule))


def test_the_oracle_regrets_nothing_and_its_opposite_gets_nothing():
    made = ruled(5, 40)
    made.features[:, 0] = made.margin
    best = report(Predicts(), made)
    assert (best.regret.scheduler, best.overall.agreement, best.overall.share) == (0, 1, 1)
    made.features[:, 0] = -made.margin
    worst = report(Predicts(), made)
    assert (worst.overall.agreement, worst.overall.share) == (0, pytest.approx(0))


def test_calibration_groups_by_predicted_margin():
    predicted = np.random.default_rng(0).permutation(25).astype(float)
    bins = calibrate(predicted, 2 * predicted)
    assert [group.states for group in bins] == [3] * 5 + [2] * 5
    assert [group.predicted for group in bins][:2] == [1, 4]
    assert [group.actual for group in bins] == [2 * group.predicted for group in bins]
    assert len(calibrate(predicted[:4], predicted[:4])) == 4


def test_labels_of_nothing():
    found = report(Predicts(), rows(3, 2))
    assert (found.overall.agreement, found.overall.share, found.regret.share(0.0)) == (1, None, None)


def test_no_decisions_are_refused():
    with pytest.raises(DatasetError, match="Hold out more prompts"):
        report(random_scheduler(), rows(0, 0))


# --- tables ---------------------------------------------------------------------------------------------------------


def printed(scheduler, made) -> str:
    console = Console(width=140, file=io.StringIO())
    for part in scheduler_report(report(scheduler, made)):
        console.print(part)
    return console.file.getvalue()


def test_the_tables_say_it():
    text = printed(Predicts(), MADE)
    lines = [line.split() for line in text.splitlines()]
    assert text.startswith("predicts: 5 decisions on 3 held-out prompts, called where the margin is above 0 ms")
    assert ["all", "5", "60.0%", "53.3%", "40.0%", "40.0%"] in lines
    assert ["2", "3", "33.3%", "41.7%", "33.3%", "33.3%"] in lines
    assert ["scheduler", "2.800", "53.3%"] in lines
    assert ["never", "2.400", "60.0%"] in lines
    assert ["1", "1", "-3.00", "8.00"] in lines
    assert len([line for line in lines if line and line[0].isdigit()]) == 2 + min(BINS, 5)


def test_tables_of_labels_of_nothing_and_of_odd_names():
    text = printed(replace(random_scheduler(), name="[red]\x1b[31m"), with_margin(rows(2, 2), np.zeros(4)))
    assert "[red]" in text
    assert "\x1b" not in text
