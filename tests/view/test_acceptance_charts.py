"""The Acceptance page's charts: the numbers in the figures are those of the library, and readings follow from them."""

from __future__ import annotations

import json
import re
from random import Random
from types import SimpleNamespace

import pytest

from tests.analysis.test_metrics import by_hand
from tests.strategies import make_run
from treegraft.analysis.aliases import aliases
from treegraft.analysis.metrics import Depth
from treegraft.analysis.reached import Judged, NodeRow, RoundRow, judged
from treegraft.analysis.reliability import reliability
from treegraft.analysis.token_kinds import KindRow, by_kind
from treegraft.trace.records import End
from treegraft.view.acceptance_charts import elsewhere, length, origins, stops, time
from treegraft.view.charts import Chart

HOSTILE = "<img src=x onerror=window.hacked=1> \u202eevil"


@pytest.fixture(scope="module")
def run():
    return make_run(Random(11), [(3, 5)] * 30)


@pytest.fixture(scope="module")
def found(run) -> Judged:
    return judged([run])


def charts(found: Judged, run, theme="light") -> dict[str, Chart]:
    made = {"histogram": length.accepted_histogram(found, theme), "lengths": length.draft_lengths(found, theme),
            "positions": length.positions(found, theme), "turns": length.turns(found, theme),
            "depths": stops.depths(found, theme), "drafters": origins.drafters(found, theme),
            "kinds": stops.token_kinds(by_kind(found, lambda place, token: run.pieces.get(token)), theme),
            "times": time.round_times(found, theme), "shares": time.time_shares(found.summary, theme)}
    return made | {f"calibration {one.drafter}": origins.calibration(one, theme) for one in reliability(found.nodes)}


def test_every_bar_that_can_be_clicked_has_its_rounds(found, run):
    known = {row.place for row in found.rounds}
    for name, made in charts(found, run).items():
        bars = [trace for trace in made.figure.data if trace.customdata]
        drawn = {key for trace in bars for key, value in zip(trace.customdata, trace.y, strict=True) if value}
        assert set(made.rounds) <= {key for trace in bars for key in trace.customdata}, name
        assert all(held and set(held) <= known and len(set(held)) == len(held) for held in made.rounds.values()), name
        if name not in ("kinds", "depths"):
            assert {key for key in drawn if not key.startswith("q")} <= set(made.rounds), name
        assert made.reading.endswith(".")
        assert made.rows


def test_the_histogram_is_the_summary_s(found, run):
    made = length.accepted_histogram(found, "light")
    assert list(made.figure.data[0].y) == found.summary.histogram
    assert {key: len(held) for key, held in made.rounds.items()} == {
        f"{number} accepted": rounds for number, rounds in enumerate(found.summary.histogram) if rounds}
    assert f"{found.summary.tau:.2f} with it" in made.reading


def test_depths_show_both_acceptances_with_their_denominators(found):
    made = stops.depths(found, "dark")
    marginal, conditional, proposed = made.figure.data
    assert list(marginal.y) == [row.marginal for row in found.summary.depths]
    assert list(conditional.y) == [row.conditional for row in found.summary.depths]
    first = found.summary.depths[0]
    assert f"{first.accepted} of {first.rounds} rounds" in marginal.hovertext[0]
    assert f"of {first.reached} rounds that accepted the depth above" in conditional.hovertext[0]
    assert list(proposed.y) == [row.proposed / row.rounds for row in found.summary.depths]
    for row in found.summary.depths:
        stopped = made.rounds.get(f"Stopped at depth {row.depth}", [])
        assert len(made.rounds.get(f"At least {row.depth} accepted", [])) == row.accepted
        assert len(stopped) == row.reached - row.accepted


def test_draft_lengths_stand_side_by_side_whatever_lies_between():
    figure = length.draft_lengths(judged([make_run(Random(2), [(1, 1), (5, 5)])]), "light").figure
    assert figure.layout.xaxis.type == "category"
    assert all(isinstance(depth, str) for trace in figure.data for depth in trace.x)


def round_row(position: int, accepted: int) -> RoundRow:
    return RoundRow(place=(0, position), position=position, turn=0, accepted=accepted, length=9, drafted=9, times={},
                    bonus=(1, 2))


def test_a_line_is_drawn_where_there_is_a_trend():
    def along(accepted) -> Chart:
        rows = [round_row(3 * place, accepted(place)) for place in range(30)]
        return length.positions(Judged(judged([]).summary, rows), "light")

    falling, noisy = along(lambda place: 100 - 2 * place), along(Random(3).sample(range(30), 30).__getitem__)
    assert len(falling.figure.data) == 2
    assert "falls along the text: −66.67 accepted a round per 100 tokens" in falling.reading
    assert len(noisy.figure.data) == 1
    low, high = re.search(r"99% range (\S+) to (\S+), with 0 in it\.$", noisy.reading).groups()
    assert low.startswith("−")
    assert high.startswith("+")


def depth_row(depth: int, accepted: int, proposed: int) -> Depth:
    return Depth(depth, accepted, reached=13, proposed=proposed, rounds=13)


def test_a_depth_that_not_every_round_drafted_is_told():
    summary = SimpleNamespace(depths=[depth_row(1, 9, 13), depth_row(2, 8, 12), depth_row(3, 4, 10)])
    reading = stops.depths(Judged(summary), "light").reading
    assert "From depth 2 on not every round had a draft (12 of 13 had one at depth 2)" in reading


def kind_row(kind: str, accepted: int, wanted: int) -> KindRow:
    return KindRow(kind, accepted, 3, wanted, [], [])


def test_kinds_that_share_the_best_place_are_all_named_and_small_ones_left_out():
    rows = [kind_row("digit", 1, 1), kind_row("punctuation", 4, 5), kind_row("code", 8, 10), kind_row("other", 1, 5)]
    assert stops.token_kinds(rows, "light").reading.endswith(
        "drafts found most of kind punctuation (80% of 5) and code (80% of 10), least of kind other (20% of 5). Kinds "
        "with fewer than 5 tokens are left out here.")
    assert stops.token_kinds(rows[1:3], "light").reading.endswith("drafts found 80% of each kind.")


def test_draft_lengths_and_drafters_add_up(found):
    made = length.draft_lengths(found, "light")
    assert sum(sum(trace.y) for trace in made.figure.data) == found.summary.rounds - found.summary.undrafted_rounds
    made = origins.drafters(found, "light")
    for trace in made.figure.data:
        assert sum(trace.y) == pytest.approx(1)
    assert [row["Accepted"] for row in made.rows] == [one.accepted for one in found.summary.origins]


def test_calibration_shows_the_bins(found):
    (one, *_) = reliability(found.nodes)
    made = origins.calibration(one, "light")
    _, accepted, target = made.figure.data
    assert [value ** 2 for value in accepted.y] == pytest.approx([part.share for part in one.bins])
    assert [value ** 2 for value in accepted.x] == pytest.approx([part.q for part in one.bins])
    assert [value ** 2 for value in target.y] == pytest.approx([part.p for part in one.bins])
    assert f"{one.bins[0].accepted} of {one.bins[0].count} nodes" in accepted.hovertext[0]


@pytest.mark.parametrize(("accepted", "verdict"), [(1, "too sure"), (24, "about right"), (49, "not sure enough")])
def test_a_drafter_is_judged_by_what_chance_allows(accepted, verdict):
    nodes = [NodeRow(place=(0, 0), token=1, before=2, origin="lm", accepted=number < accepted, p=0.5, q={"lm": 0.5})
             for number in range(50)]
    assert f"lm is {verdict}" in origins.calibration(reliability(nodes)[0], "light").reading


def test_times_add_up_to_the_rounds_and_to_the_run(found, run):
    made = time.round_times(found, "light")
    drawn = [sum(bars) for bars in zip(*(trace.y for trace in made.figure.data), strict=True)]
    assert drawn == pytest.approx([record.times["total"] / 1000 for record in run.records])
    shares = time.time_shares(found.summary, "light").rows
    assert sum(row["ms"] for row in shares) == pytest.approx(sum(found.summary.phases.values()) / 1000, abs=1)


def test_many_rounds_share_bars():
    found = judged([make_run(Random(1), [(1, 2)] * 250)])
    made = time.round_times(found, "light")
    assert len(made.figure.data[0].x) <= time.MOST_BARS
    assert sum(len(held) for held in made.rounds.values()) == 250
    assert made.rounds["Rounds 0-2"] == [(0, 0), (0, 1), (0, 2)]


def test_the_recorder_stands_beside_the_loop():
    counts = judged([by_hand(End(reason="stop", new_tokens=5, microseconds=2500, recording=175))]).summary
    made = time.time_shares(counts, "light")
    assert made.rows[-1] == {"Phase": "Recorder, on top", "ms": 0.2, "Share of the phases (%)": 5.0}
    assert "took 5.0% on top" in made.reading


def test_turns_show_the_bonus_beside_what_was_accepted():
    several = [make_run(Random(seed), [(3, 4)] * 5) for seed in (1, 2)]
    several[1].header.turn = 1
    found = judged(several)
    assert length.has_turns(found)
    accepted, bonus = length.turns(found, "light").figure.data
    assert list(bonus.y) == [1, 1]
    assert accepted.y[1] == pytest.approx(sum(row.accepted for row in found.rounds if row.turn == 1) / 5)
    assert not length.has_turns(judged(several[:1]))


def test_names_from_a_trace_stay_text():
    run = make_run(Random(11), [(3, 5)] * 8)
    run.header.drafters[0].name = HOSTILE
    for record in run.records:
        record.times[HOSTILE] = 10**6
    for made in charts(judged([run]), run).values():
        drawn = made.figure.to_dict()
        for trace in drawn["data"]:
            trace.pop("customdata", None)  # keys, which are compared and never drawn
        drawn = json.dumps(drawn, ensure_ascii=False, default=list)
        assert "<img" not in drawn
        assert "\u202e" not in drawn + made.reading + json.dumps(made.rows, ensure_ascii=False)


def test_tables_of_other_words():
    counts = judged([by_hand(None)]).summary
    found = elsewhere.tables(aliases(counts))
    assert list(found) == ["vLLM", "SGLang", "TensorRT-LLM", "EAGLE"]
    values = {row["Its name"]: row["Value here"] for rows in found.values() for row in rows}
    assert values["Mean acceptance length"] == "2.00"
    assert values["Per-position acceptance rate"] == "50.0%, 50.0%"
    assert values["spec_correct_drafts_histogram"] == "2, 0, 1"
    html = elsewhere.table_html([{"Its name": "<b>", "Value here": "1 & 2"}], "light")
    assert '<th role="rowheader" scope="row">&lt;b&gt;</th>' in html
    assert '<td role="cell" data-name="Value here">1 &amp; 2</td>' in html
