"""Figures, sentences and tables of the Scheduler page."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

from tests.analysis.recordings import PROMPTS, made_scheduler, recorded
from tests.scheduler.examples import random_scheduler
from tests.view.examples import grafted
from treegraft.analysis.attribution import attribution
from treegraft.analysis.decisions import decisions
from treegraft.analysis.regret import Position, position, verdict
from treegraft.analysis.thresholds import sweep
from treegraft.analysis.whatif import WhatIf
from treegraft.policies import TreeGraft
from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.values import Values
from treegraft.view.feature_words import WORDS, readable
from treegraft.view.palette import COLORS
from treegraft.view.scheduler_charts import (
    CALL,
    SKIP,
    TOP,
    contribution_bars,
    decision_grid,
    ranked,
    threshold_chart,
    towards,
)
from treegraft.view.scheduler_words import around, attributed, decided, feature_rows, judged, sweep_rows, swept
from treegraft.view.value_tree import places, reading, signs, state_rows, told, value_tree

POLICY = TreeGraft(budget=12, top_k=3, layers=3, survive_empty=True)
THEMES = ("light", "dark")


@pytest.fixture(scope="module")
def values() -> Values:
    return Values(WhatIf(recorded(("lookup", "strong"), PROMPTS[0], POLICY, level="exhaustive",
                                  scheduler=made_scheduler(), new_tokens=14).run))


def contrast(one: str, other: str) -> float:
    def light(color: str) -> float:
        parts = (int(color[place:place + 2], 16) / 255 for place in (1, 3, 5))
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


# --- the features in words ------------------------------------------------------------------------------------------


def test_every_feature_has_words():
    assert tuple(WORDS) == FEATURES
    assert len({words.title for words in WORDS.values()}) == len(FEATURES)


@pytest.mark.parametrize(("feature", "value", "text"), [
    ("prompt_length", np.log1p(58), "58 tokens"), ("cost_ratio", np.log(2.5), "2.5 times"), ("layer", 0.4, "40%"),
    ("called_2", 1.0, "yes"), ("called_2", 0.0, "no"), ("called_2", 0.5, "0.5"), ("target_ms", 367.865, "367.9 ms"),
    ("reselected_score", -2.31, "-2.31 nats"), ("prompt_length", 1e300, "1e+300"), ("cost_ratio", 1e300, "1e+300")])
def test_values_are_shown_as_they_are_meant(feature, value, text):
    assert readable(feature, value) == text


# --- the grid -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES)
def test_the_grid_has_a_sign_and_a_colour_a_decision(theme):
    found = decisions(grafted())
    figure = decision_grid(found, 5, theme, found[1])
    cells = figure.data[0]
    assert list(cells.text) == [SKIP, CALL]
    assert list(cells.customdata) == ["0/1", "0/2"]
    assert list(cells.marker.color) == [-0.25, 0.75]
    assert (cells.marker.cmin, cells.marker.cmax) == (-0.75, 0.75)
    frame = figure.layout.shapes[0]
    assert (frame.y0, frame.y1) == (1.5, 2.5)


def test_a_grid_without_margins_has_no_scale():
    found = decisions(grafted())
    for one in found:
        object.__setattr__(one, "margin", None)
    assert not decision_grid(found, 5, "light").data[0].marker.showscale


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("call", [True, False])
def test_signs_can_be_read_on_the_strongest_colours(theme, call):
    assert contrast(COLORS[theme]["ink"], towards(call, theme)) >= 4.5


def test_what_was_decided_is_said():
    run = grafted()
    skip, call = decisions(run)
    assert decided(skip) == ("Layer 1 skipped: the weak drafter went on. The scheduler's margin, 0.2 ms, is not above "
                             "the threshold of 0.5 ms.")
    assert "is above the threshold" in decided(call)
    run.records[0].events[0].calls_left = 0
    assert "no calls left" in decided(decisions(run)[0])
    run.records[0].events[0].rule, run.records[0].events[0].threshold = "<b>\u202e", None
    assert "fixed before the run (schedule: <b>\\u202e)" in decided(decisions(run)[0])


# --- contributions --------------------------------------------------------------------------------------------------


def test_bars_are_sorted_and_add_up():
    scheduler = random_scheduler(3)
    seen = dict(zip(FEATURES, np.random.default_rng(0).normal(size=17), strict=True))
    found = attribution(scheduler, seen)
    figure = contribution_bars(found, seen, "light")
    bars = {title: part for trace in figure.data for title, part in zip(trace.y, trace.x, strict=True)}
    assert len(bars) == TOP + 1
    assert sum(bars.values()) == pytest.approx(found.margin - found.baseline)
    order = list(figure.layout.yaxis.categoryarray)[::-1]
    assert order[0].startswith(WORDS[ranked(found)[0][0]].title)
    sizes = [abs(bars[title]) for title in order[:TOP]]
    assert sizes == sorted(sizes, reverse=True)
    towards_call, towards_skip = figure.data
    assert min(towards_call.x, default=1) > 0 > max(towards_skip.x, default=-1)
    assert towards_call.marker.pattern.shape != towards_skip.marker.pattern.shape
    assert f"{found.margin:.1f} ms" in attributed(found)


def test_the_table_of_features_explains_each():
    scheduler = random_scheduler(3)
    seen = dict.fromkeys(FEATURES, 0.5)
    found = attribution(scheduler, seen)
    rows = list(feature_rows(seen, scheduler, found))
    assert len(rows) == 17
    assert rows[0]["Feature"] == WORDS[ranked(found)[0][0]].title
    assert sum(row["Adds (ms)"] for row in rows) == pytest.approx(found.margin - found.baseline, abs=0.1)
    assert all(row["Meaning"] for row in rows)
    assert "Adds (ms)" not in next(iter(feature_rows(seen)))
    constant = random_scheduler(3)
    object.__setattr__(constant, "provenance", {"constant_features": ["overlap"]})
    row = next(row for row in feature_rows(seen, constant, found) if row["Feature"] == WORDS["overlap"].title)
    assert "nothing was learned from it" in row["In training"]


# --- the value tree -------------------------------------------------------------------------------------------------


def a_round(values: Values) -> Position:
    return next(one for one in verdict(values).rounds if one.lost > 0)


@pytest.mark.parametrize("theme", THEMES)
def test_the_tree_draws_every_state_and_end_once(values, theme):
    here = a_round(values)
    figure = value_tree(here, theme)
    states, ends = figure.data[-2:]
    assert len(states.x) == len(here.states)
    assert len(ends.x) == len(here.ends)
    assert [int(text) for text in ends.text] == [end.taken for end in here.ends.values()]
    for sign, state in zip(states.marker.symbol, here.states.values(), strict=True):
        assert sign == ("triangle-up" if state.saved > 0 else "line-ew")
    best = next(trace for trace in figure.data if trace.name == "oracle")
    assert max(x for x in best.x if x is not None) == len(here.best)


def test_no_two_places_of_the_tree_meet_and_calls_lie_above_skips(values):
    here = a_round(values)
    where = places(here)
    assert len(set(where.values())) == len(where)
    for before in here.states:
        assert where[*before, True][1] > where[*before, False][1]


def test_the_table_of_states_follows_both_ways(values):
    here = a_round(values)
    rows = list(state_rows(here))
    assert len(rows) == len(here.states)
    assert [row["Oracle"] for row in rows if row["Oracle"]] == ["call" if one else "skip" for one in here.best]
    assert [row["This run's policy"] for row in rows if row["This run's policy"]] == [
        "call" if one else "skip" for one in here.chosen]
    for row, state in zip(rows, sorted(here.states.items(), key=lambda one: (len(one[0]), [not c for c in one[0]])),
                          strict=True):
        assert row["A call saves (ms)"] == pytest.approx(state[1].skip - state[1].call, abs=0.06)


def test_the_tree_is_read_aloud(values):
    here = a_round(values)
    assert f"lost {here.lost:.1f} ms" in reading(here)
    agreeing = (one for one in (position(values, place) for place in range(values.places)) if one.best == one.chosen)
    assert "nothing is lost" in reading(next(agreeing))


def test_choices_in_words_and_signs():
    assert told((False, True, True)) == "skip, then call 2 times"
    assert signs((True, False)) == f"{CALL} {SKIP}"
    assert signs(()) == "start"


# --- thresholds and the verdict -------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["tokens_per_second", "tau"])
def test_the_sweep_shows_the_bounds_and_the_recorded_threshold(values, measure):
    found = sweep(values.whatif, values)
    figure = threshold_chart(found, "light", measure, "title")
    assert [trace.name for trace in figure.data] == ["scheduler", "never", "always", "oracle"]
    assert len({trace.line.dash for trace in figure.data[1:]}) == 3
    assert figure.layout.shapes[0].x0 == found.recorded == 0.0
    assert f"{found.best[0].tokens_per_second:.1f} tokens/s" in swept(found)
    assert f"Measured, the run itself came to {found.measured:.1f}" in swept(found)
    assert "Measured" not in swept(dataclasses.replace(found, measured=None))
    for own in found.thresholds:
        said = swept(dataclasses.replace(found, recorded=own))
        inside = found.best[1] <= own <= found.best[2]
        assert ("ms is as fast" in said, f"at the recorded {own:g} ms".replace("-", "−") in said) == (inside, not inside)
    rows = list(sweep_rows(found))
    assert len(rows) == len(found.outcomes) + 3
    assert rows[0]["Threshold (ms)"] == "never"


def test_the_verdict_names_what_is_lost(values):
    found = verdict(values)
    assert f"{found.lost:,.0f} ms are lost" in judged(found)


def test_text_around_a_position_is_on_one_line():
    run = grafted()
    run.pieces = dict.fromkeys(run.pieces, b"a\n\xe2\x80\xae<b>")
    text = around(run, 0)
    assert "\n" not in text
    assert "\u202e" not in text
    assert "\u21b5" in text


def test_names_from_a_trace_reach_no_figure(values):
    """Figures are made of numbers and of words of our own; Plotly reads HTML in texts."""
    figures = [decision_grid(decisions(values.whatif.run), 3, "light"), value_tree(a_round(values), "light")]
    for figure in figures:
        assert set(re.findall(r"<[^>]*>", json.dumps(figure.to_plotly_json(), default=list))) <= {"<br>"}
