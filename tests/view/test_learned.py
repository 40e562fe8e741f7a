"""Rows that a round changed stand beside what they were, as far as the view knows."""

from __future__ import annotations

from random import Random

from hypothesis import given

from tests.strategies import make_run, runs
from tests.view.examples import AIR, BLUE, IS, SEA, SKY, SUN, THE, WAS, retrieved
from treegraft.trace.records import DrafterInfo, Learn
from treegraft.view.learned import MOST_ROWS, MOST_SUCCESSORS, Rows
from treegraft.view.model import run_view


def test_the_rows_of_the_text_come_first_each_with_what_it_was():
    event = run_view(retrieved())["rounds"][0]["events"][-1]
    assert event["rows"] == [
        [THE, [SKY, SEA, SUN], [SKY, AIR, SUN]], [SKY, [BLUE, IS], [WAS, IS, BLUE]], [AIR, [SUN], []]]
    assert (event["drafter"], event["more"]) == (2, 0)


def test_an_earlier_round_says_what_a_row_was():
    rows = Rows(retrieved(), 0)
    rows.view(Learn(drafter=2, k=2, tokens=[AIR, SKY], successors=[SEA, -1, WAS, SUN]), [])
    rows.view(Learn(drafter=1, k=2, tokens=[AIR], successors=[THE, BLUE]), [])
    later = rows.view(Learn(drafter=2, k=2, tokens=[SKY, AIR], successors=[IS, -1, SUN, -1]), [])
    assert later["rows"] == [[SKY, [IS], [WAS, SUN]], [AIR, [SUN], [SEA]]]


def test_what_is_unknown_is_not_called_empty():
    event = Learn(drafter=2, k=1, tokens=[AIR, SKY], successors=[SUN, IS])
    later = Rows(retrieved(), 5).view(event, [])
    assert later["rows"] == [[AIR, [SUN], None], [SKY, [IS], None]]
    run = retrieved()
    run.header.drafters[2] = DrafterInfo(id=2, kind="successors", name="successors", memory="warm text")
    assert Rows(run, 0).view(event, [])["rows"] == [[AIR, [SUN], None], [SKY, [IS], [WAS]]]
    run.prefill = None
    assert Rows(run, 0).view(event, [])["rows"] == [[AIR, [SUN], None], [SKY, [IS], None]]


def test_rows_are_bounded():
    many = Learn(drafter=2, k=30, tokens=list(range(50)), successors=[token + 100 for token in range(1500)])
    view = Rows(retrieved(), 0).view(many, [45])
    assert [row[0] for row in view["rows"]] == [45, *range(MOST_ROWS - 1)]
    assert {len(row[1]) for row in view["rows"]} == {MOST_SUCCESSORS}
    assert view["more"] == 50 - MOST_ROWS
    assert Rows(retrieved(), 0).view(Learn(drafter=2, k=0, tokens=[3], successors=[]), [])["rows"] == []


@given(runs(min_rounds=1))
def test_every_token_of_a_shown_row_has_its_text(run):
    view = run_view(run)
    for round in view["rounds"]:
        for event in round["events"]:
            for token, row, before in event.get("rows", ()):
                assert {token, *row, *(before or ())} <= view["pieces"].keys()


def test_a_window_of_a_long_run_knows_the_rows_that_its_own_rounds_changed():
    run = make_run(Random(3), [(2, 3)] * 20)
    events = [event for round in run_view(run, first=10)["rounds"] for event in round["events"]]
    before = [row[2] for event in events for row in event.get("rows", ())]
    assert None in before
    assert any(before)
