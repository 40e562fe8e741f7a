"""Tables, charts and words of the Compare page."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import treegraft
from tests.strategies import make_run
from treegraft.analysis.align import Parting, Progress, stretches, writers
from treegraft.analysis.metrics import summary
from treegraft.compare.report import read_comparison
from treegraft.compare.table import Row
from treegraft.view.compare_charts import growth_chart, map_chart, speed_chart, tau_chart, time_chart
from treegraft.view.compare_tables import differing, numbers, settings, stretch_table
from treegraft.view.compare_words import VERDICTS, map_reading, parting_lines, speed_reading, time_reading
from treegraft.view.comparisons import comparisons
from treegraft.view.library import DEMOS
from treegraft.view.palette import PAGE


@pytest.fixture(scope="module")
def demos() -> list[treegraft.Run]:
    return [treegraft.open(DEMOS / f"{name}.jsonl.zst").runs[0] for name in ("chain", "plain")]


def test_only_settings_that_differ_are_listed(demos):
    found = differing([settings(run) for run in demos], ["Chain", "Plain"]).set_index("setting")
    assert list(found.loc["policy"]) == ["chain", "plain"]
    assert "target" not in found.index
    assert not len(differing([settings(demos[0])] * 2, ["a", "b"]))


def test_numbers_are_those_of_the_summary(demos):
    found = numbers([summary(run) for run in demos], ["Chain", "Plain"])
    assert list(found["rounds"]) == [len(run.rounds) for run in demos]
    assert found["tau"][1] == 1
    assert found["tokens/s"][0] == pytest.approx(len(demos[0].output) * 1e6 / demos[0].end.microseconds)
    assert found["against plain"][0] == summary(demos[0]).speedup


def test_stretches_name_rounds_and_lengths(demos):
    found = stretches([writers(run) for run in demos])[:1]
    row = stretch_table(found, demos[0], ["Chain", "Plain"]).iloc[0]
    length = demos[0].rounds[0].accepted
    assert (row["Chain"], row["Plain"], row["difference"]) == (f"{length} in round 0", "0 in round 0", length)


def test_a_run_without_times_has_no_line_against_time():
    found = [Progress([1, 3], [1.0, 5.0]), Progress([1, 2], None)]
    assert [line.name for line in growth_chart(found, ["a", "b"], "light", "milliseconds").data] == ["a"]
    assert [list(line.x) for line in growth_chart(found, ["a", "b"], "dark", "rounds").data] == [[0, 1], [0, 1]]


def test_names_of_strangers_stay_text_in_charts():
    chart = growth_chart([Progress([1], [1.0])], ["<b>x</b>"], "light", "rounds")
    assert chart.data[0].name == "&lt;b&gt;x&lt;/b&gt;"


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_has_words(verdict):
    run = make_run(Random(1), [(1, 2)] * 2)
    found = Parting(1, (run.output[1], None), (0.00002, None), 0.0001, verdict)
    lines = parting_lines(found, (run, run), ("One", "Other"))
    assert lines[0].endswith("0.00002 nats")
    assert "nothing: it" in lines[1]
    assert lines[1].endswith("not recorded")


def test_the_bundled_comparison_is_drawn_as_it_says():
    found = read_comparison(comparisons()["demo"])
    rows = {row.policy: row for row in found.total}
    speeds = speed_chart(found.total, "light").data[0]
    assert dict(zip(speeds.y, speeds.x, strict=True)) == {
        name: row.over_plain.median for name, row in rows.items() if row.over_plain}
    for policy in ("plain", "chain@eagle3"):
        parts = [bar.x[list(bar.y).index(policy)] for bar in tau_chart(found.total, "dark").data]
        assert sum(parts) == pytest.approx(rows[policy].tau)
        times = [bar.x[list(bar.y).index(policy)] for bar in time_chart(found.total, "dark").data]
        assert sum(times) == pytest.approx(sum(rows[policy].phases.values()))
    cells = map_chart(found, "light").data[0]
    row = next(one for one in found.of_category("code") if one.policy == "chain@eagle3")
    assert cells.z[list(cells.y).index("chain@eagle3")][list(cells.x).index("code")] == row.over_plain.median


@pytest.fixture(scope="module")
def measured() -> dict[str, Row]:
    return {row.policy: row for row in read_comparison(comparisons()["demo"]).total if row.over_plain}


def faster(row: Row, times: float) -> Row:
    return replace(row, over_plain=replace(row.over_plain, median=times))


def test_a_policy_that_is_slower_than_plain_decoding_is_not_called_the_fastest(measured):
    chain, lookup = measured["chain@eagle3"], measured["lookup"]
    assert speed_reading([faster(chain, 0.8), faster(lookup, 0.5)]) == (
        "None is as fast as plain decoding. chain@eagle3 comes closest: 0.80 times plain decoding.")
    assert speed_reading([faster(chain, 0.8), faster(lookup, 1.5)]) == (
        "lookup is the fastest: 1.50 times plain decoding.")


def test_the_longest_phase_is_named(measured):
    chain, lookup = measured["chain@eagle3"], measured["lookup"]
    assert time_reading([chain, lookup]) == "The phase that takes most of a round is verify, under every policy."
    drafting = replace(chain, phases={"draft": 9.0, "verify": 1.0})
    assert time_reading([drafting, lookup, lookup]) == (
        "The phase that takes most of a round, of 3 policies: verify under 2, draft under 1.")


def test_the_best_category_is_named(measured):
    rows = [replace(faster(row, times), category=category) for row, times, category in zip(
        measured.values(), (0.5, 0.7, 0.6), ("code", "prose", ""), strict=False)]
    assert map_reading(rows) == (
        f"The median of each category. The highest is 0.70 times plain decoding, with {rows[1].policy} on prose.")
    assert map_reading([replace(rows[0], over_plain=None)]) == "No category was measured against plain decoding."


def test_no_line_runs_through_the_names_and_values_above_the_bars(measured):
    for theme in ("light", "dark"):
        names = speed_chart(list(measured.values()), theme).layout.annotations
        assert [name.bgcolor for name in names] == [PAGE[theme]] * len(measured)
