"""Decisions of a run, what moved a margin, what decisions cost, and other thresholds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.recordings import PROMPTS, made_scheduler, recorded
from tests.scheduler.examples import random_scheduler
from tests.view.examples import example, grafted
from treegraft.analysis.attribution import attribution, switches
from treegraft.analysis.decisions import decisions, frame, layers_of
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.regret import losses, position, verdict
from treegraft.analysis.thresholds import MOST, candidates, refined, sweep
from treegraft.analysis.whatif import WhatIf, change
from treegraft.policies import TreeGraft
from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.values import Values

POLICY = TreeGraft(budget=12, top_k=3, layers=3, survive_empty=True)


@pytest.fixture(scope="module")
def run():
    return recorded(("lookup", "strong"), PROMPTS[0], POLICY, level="exhaustive", scheduler=made_scheduler(),
                    new_tokens=14).run


@pytest.fixture(scope="module")
def values(run) -> Values:
    return Values(WhatIf(run))


# --- the decisions --------------------------------------------------------------------------------------------------


def test_decisions_are_those_of_the_events():
    found = decisions(grafted())
    assert [(one.round, one.event, one.layer, one.call, one.margin) for one in found] == [
        (0, 0, 1, False, 0.25), (0, 2, 2, True, 1.25)]
    assert all(one.asked and not one.spent for one in found)
    table = frame(found)
    assert table.layer.tolist() == [1, 2]
    assert table["feature overlap"].tolist()[1] == 0.5
    assert layers_of(grafted(), found) == 2


def test_a_layer_decided_twice_counts_as_it_was_decided_last():
    run = grafted()
    events = run.records[0].events
    events[2].layer = 1
    assert [(one.event, one.call) for one in decisions(run)] == [(2, True)]


def test_a_run_of_another_policy_has_no_decisions():
    assert decisions(example()) == []


def test_a_skip_without_calls_left_says_so():
    run = grafted()
    run.records[0].events[0].calls_left = 0
    first, _ = decisions(run)
    assert first.spent
    run.records[0].events[0].rule = "forced"
    first, _ = decisions(run)
    assert not first.spent


# --- contributions --------------------------------------------------------------------------------------------------

features = st.lists(st.floats(-50, 400), min_size=len(FEATURES), max_size=len(FEATURES)).map(
    lambda values: dict(zip(FEATURES, values, strict=True)))


@given(features, st.integers(0, 5))
def test_contributions_add_up_to_the_margin(seen, seed):
    scheduler = random_scheduler(seed)
    found = attribution(scheduler, seen)
    assert found.margin == pytest.approx(scheduler.margin(np.array([*seen.values()])))
    assert found.baseline == pytest.approx(scheduler.margin(scheduler.mean))
    assert sum(found.parts.values()) == pytest.approx(found.margin - found.baseline, rel=1e-9, abs=1e-6)


def test_contributions_are_integrated_gradients():
    """Against the mean of slopes at many places, taken by small differences."""
    scheduler = random_scheduler(3)
    random = np.random.default_rng(1)
    seen = random.normal(size=17) * 2
    way, places, small = seen - scheduler.mean, (np.arange(4000) + 0.5) / 4000, 1e-5
    along = scheduler.mean + np.outer(places, way)
    found = attribution(scheduler, dict(zip(FEATURES, seen, strict=True))).parts
    for feature in (0, 7, 16):
        step = np.zeros(17)
        step[feature] = small
        slopes = (scheduler.margins(along + step) - scheduler.margins(along - step)) / (2 * small)
        assert found[FEATURES[feature]] == pytest.approx(way[feature] * slopes.mean(), rel=0.01, abs=0.01)


def test_between_switches_the_margin_is_a_straight_line():
    scheduler = random_scheduler(2)
    steps = np.random.default_rng(5).normal(size=17) * 3
    ends = switches(scheduler, steps)
    assert (ends[0], ends[-1]) == (0, 1)
    assert len(ends) > 10
    for left, right in itertools.pairwise(ends):
        places = np.array([left, (left + right) / 2, right])
        margins = scheduler.margins(scheduler.mean + np.outer(places, steps * scheduler.std))
        assert margins[1] == pytest.approx((margins[0] + margins[2]) / 2, abs=1e-7)


def test_a_feature_at_its_average_adds_nothing():
    scheduler = random_scheduler(3)
    seen = dict(zip(FEATURES, scheduler.mean, strict=True)) | {"overlap": 9.0}
    assert {name for name, part in attribution(scheduler, seen).parts.items() if part} == {"overlap"}


@pytest.mark.parametrize("seen", [{}, {"layer": 0.2}, dict.fromkeys(FEATURES, 1e308)])
def test_features_without_a_margin_are_refused(seen):
    with pytest.raises(ValueError, match="features"):
        attribution(random_scheduler(), seen)


# --- what decisions cost --------------------------------------------------------------------------------------------


def test_what_rounds_lose_adds_up_to_what_the_run_loses(run, values):
    found = verdict(values)
    assert [one.place for one in found.rounds] == [
        record.context - len(run.header.prompt.tokens) - 1 for record in run.records]
    assert found.lost == pytest.approx(sum(one.lost for one in found.rounds))
    assert 0 <= found.best <= found.milliseconds
    assert found.lost > 0


def test_the_choices_of_a_position_are_those_of_the_run(run, values):
    made = {}
    for one in decisions(run):
        made.setdefault(one.round, []).append(one.call)
    assert [list(one.chosen) for one in verdict(values).rounds] == [made[round] for round in sorted(made)]


def test_a_position_has_every_state_that_occurs(values):
    found = position(values, 3)
    assert len(found.states) + found.impossible == 2**POLICY.layers - 1
    assert {choices[:-1] for choices in found.ends} <= found.states.keys()
    assert sum(loss for _, loss in losses(found.states, found.best)) == pytest.approx(0)
    worst = max(sum(loss for _, loss in losses(found.states, end)) for end in found.ends)
    assert worst > 0
    for end in found.ends.values():
        lost = sum(loss for _, loss in losses(found.states, end.choices))
        assert lost == pytest.approx(values._time(3, end) - values.best[3])


def test_agreement_counts_decisions_that_lose_nothing(values):
    found = verdict(values)
    lost = [loss for one in found.rounds for _, loss in losses(one.states, one.chosen)]
    assert found.decisions.agreement == sum(loss == 0 for loss in lost) / len(lost)


def test_a_text_of_one_token_has_no_verdict():
    run = recorded(("lookup", "strong"), PROMPTS[0], POLICY, level="exhaustive", scheduler=made_scheduler(),
                   new_tokens=1).run
    assert verdict(Values(WhatIf(run))) is None


# --- thresholds -----------------------------------------------------------------------------------------------------


def test_a_sweep_goes_from_always_to_never(run, values):
    found = sweep(values.whatif, values)
    first, last = found.outcomes[0], found.outcomes[-1]
    assert (first.tau, first.total("calls")) == (found.bounds["always"].tau, found.bounds["always"].total("calls"))
    assert (last.tau, last.total("calls")) == (found.bounds["never"].tau, 0)
    assert list(found.thresholds) == sorted(found.thresholds)
    own = found.outcomes[found.thresholds.index(found.recorded)]
    assert own.rounds == len(run.records)
    assert own.total("calls") == sum(one.call for one in decisions(run))
    assert found.bounds["oracle"].milliseconds == values.oracle.milliseconds


def test_a_sweep_finds_every_outcome_there_is(values):
    """On so small a run all thresholds can be tried."""
    found = sweep(values.whatif, values)
    replays = [values.whatif.replay(change(values.policy, threshold=float(threshold)))
               for threshold in np.linspace(found.thresholds[0], found.thresholds[-1], 60)]
    assert {round(one.tau, 6) for one in replays} <= {round(one.tau, 6) for one in found.outcomes}


def test_the_best_thresholds_are_the_fastest(values):
    found = sweep(values.whatif, values)
    best, low, high = found.best
    assert best.tokens_per_second == max(one.tokens_per_second for one in found.outcomes)
    assert low <= high


def test_candidates_lie_between_all_margins():
    found = candidates(np.array([3.0, 1.0, 1.0, 2.0]), 0.5)
    assert found == [0.0, 1.5, 2.5, 4.0]
    assert candidates(np.zeros(0), 0.5) == [0.5]
    assert candidates(np.array([-1e9, 0.0]), None)[0] == -1e6


def test_thresholds_are_tried_where_outcomes_differ(values):
    made = sweep(values.whatif, values).outcomes
    tried = []

    def replay(threshold: float):
        tried.append(threshold)
        return made[0] if threshold < 731 else made[-1]

    found = refined([float(one) for one in range(1000)], replay)
    assert {730.0, 731.0} <= set(found)
    assert len(found) < MOST


def test_runs_without_thresholds_say_so(run):
    with pytest.raises(NotRecorded, match="no scheduler"):
        sweep(WhatIf(recorded(("lookup", "strong"), PROMPTS[0], change(POLICY, schedule="always"), level="dense",
                              new_tokens=6).run))
