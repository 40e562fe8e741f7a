"""The forms of a comparison: terminal, Markdown, CSV, JSON, plots."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

from treegraft.analysis.spread import Spread
from treegraft.compare import report
from treegraft.compare.table import Comparison, Difference, Row, Session, Setup
from treegraft.view.comparison import comparison_figure

MACHINE = {"cpu": "Fast 9000", "system": "Linux", "cores": 2, "load": 3.5, "python": "3.11", "torch": "2.13",
           "transformers": "5.24", "treegraft": "0.1"}
SETUP = Setup(
    target="big", parameters=135_000_000, dtype="float32", device="cpu", prompts=3, turns=4, prompt_tokens=60,
    max_new_tokens=12, first_date="2026-01-30", last_date="2026-01-31", hosts=["Linux x86_64, 2 cores, threads: 1"],
    sessions=[Session("2026-01-30", MACHINE, False, "local", 2), Session("2026-01-31", MACHINE, True, "ray", 0)],
    left_out=["long"])
PLAIN = Row(
    policy="plain", category=None, prompts=3, turns=4, rounds=40, tokens=44, tau=1.0, mean_accepted=0.0,
    node_yield=None, forwards={}, phases={"verify": 20.0, "other": 1.0}, prefill=30.0, tokens_per_second=45.0,
    over_plain=None, set_over_plain=None, origins={}, same=4, near_ties=0, differing=0)
OTHER = replace(
    PLAIN, policy="=a|<b>", rounds=20, tau=2.25, mean_accepted=1.25, node_yield=0.05, forwards={"lm": 2.0, "head": 0.5},
    phases={"draft": 10.0, "verify": 25.0}, tokens_per_second=60.0, over_plain=Spread(1.3, 1.1, 1.6, 3),
    set_over_plain=1.33, origins={"lm": 20, "both": 5}, same=2, near_ties=1, differing=1)
DIFFERENCES = [Difference("=a|<b>", 0, "q1", 1, 7, 0.5, False), Difference("=a|<b>", 1, "q2", 0, 3, 1e-5, True)]


@pytest.fixture
def comparison() -> Comparison:
    rows = [PLAIN, OTHER, replace(PLAIN, category="qa"), replace(OTHER, category="qa"), replace(PLAIN, category="")]
    return Comparison(SETUP, rows, DIFFERENCES)


def printed(comparison: Comparison) -> str:
    screen = Console(width=300, markup=False, record=True, file=io.StringIO())
    for part in report.on_terminal(comparison):
        screen.print(part)
    return screen.export_text()


def cells(text: str, title: str) -> str:
    """The line of the second policy below a title, with single spaces."""
    below = text[text.index(title):].splitlines()
    return " ".join(next(line for line in below if line.startswith("=a|<b>")).split())


def test_terminal_shows_every_table(comparison):
    text = printed(comparison)
    assert cells(text, "All prompts") == "=a|<b> 2.25 1.25 5.0% 2.50 60.0 1.30 (1.10 to 1.60) 1.33 2 1 1"
    assert cells(text, "Milliseconds") == "=a|<b> 10.0 25.0 0.0 0.0 0.0 35.0 30.0"
    assert cells(text, "Accepted tokens by origin") == "=a|<b> 20 5 25"
    assert cells(text, "Category qa") == "=a|<b> 3 2.25 1.25 5.0% 2.50 60.0 1.30 (1.10 to 1.60) 1"
    assert "Category (none)" in text


def test_conditions_tell_how_it_was_measured_and_what_is_doubtful(comparison):
    text = printed(comparison)
    for words in ("big (135.0 M parameters), float32 on cpu; 2026-01-30 to 2026-01-31",
                  "prompts: 3 (4 turns, 60 tokens)",
                  "decoded on Linux x86_64, 2 cores, threads: 1", "started on 2026-01-30 from Fast 9000",
                  "engine ray, workers: as many as the cluster takes", "busy on 2026-01-31: load 3.5 on 2 cores",
                  "left out, as they cannot be asked: 1 prompts (long)", "treegraft 0.1",
                  "=a|<b> differs from plain decoding on prompt q1, turn 2, from new token 7 on; margin of the target "
                  "there: 0.500 nats"):
        assert words in text
    assert "busy on 2026-01-30" not in text
    assert "prompt q2" not in text


def test_many_differences_are_counted(comparison):
    many = [replace(DIFFERENCES[0], prompt=number, id=f"q{number}") for number in range(50)]
    lines = report.difference_lines(replace(comparison, differences=many))
    assert len(lines) == report.MOST_DIFFERENCES + 1
    assert lines[-1] == "and 30 more, see table.json"


def test_markdown_tables_are_whole_and_names_are_text(comparison):
    text = report.as_markdown(comparison)
    assert "=a\\|&lt;b>" in text
    assert "<b>" not in text
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    assert len(tables) == 5
    for rows in tables:
        assert len({row.replace("\\|", "").count("|") for row in rows}) == 1


def test_csv_has_a_line_for_each_policy_and_category(comparison):
    records = list(csv.DictReader(io.StringIO(report.as_csv(comparison))))
    assert [(record["policy"], record["category"]) for record in records] == [
        ("plain", "(all)"), ("'=a|<b>", "(all)"), ("plain", "qa"), ("'=a|<b>", "qa"), ("plain", "(none)")]
    other = records[1]
    assert [float(other[name]) for name in (
        "tau", "node_yield", "draft_forwards", "over_plain_median", "over_plain_low", "over_plain_high", "draft_ms",
        "other_ms", "forwards of lm", "accepted from both")] == [2.25, 0.05, 2.5, 1.3, 1.1, 1.6, 10.0, 0.0, 2.0, 5.0]
    assert (records[0]["over_plain_median"], records[0]["accepted from lm"]) == ("", "0")


def test_json_comes_back(comparison, tmp_path):
    (tmp_path / report.JSON).write_bytes(report.as_json(comparison))
    assert report.read_comparison(tmp_path) == comparison
    assert msgspec.json.decode(report.as_json(comparison))["rows"][1]["over_plain"]["count"] == 3


def test_the_figure_shows_ratio_tau_and_time_of_every_policy(comparison):
    figure = comparison_figure(comparison)
    name = "=a|&lt;b&gt;"
    bars = {(bar.xaxis, bar.name): dict(zip(bar.y, bar.x, strict=True)) for bar in figure.data if bar.type == "bar"}
    assert bars["x", None] == {name: 1.3}
    assert bars["x2", "bonus"] == {"plain": 1.0, name: 1.0}
    assert bars["x2", "lm"] == {"plain": 0.0, name: 1.0}
    assert bars["x2", "both"] == {"plain": 0.0, name: 0.25}
    assert bars["x3", "draft"] == {"plain": 0.0, name: 10.0}
    error = figure.data[0].error_x
    assert (error.array, error.arrayminus) == (pytest.approx([0.3]), pytest.approx([0.2]))
    speeds, taus = (trace for trace in figure.data if trace.type == "heatmap")
    assert (speeds.x, speeds.y) == (("qa", "(none)"), ("plain", name))
    assert [list(line) for line in speeds.z] == [[None, None], [1.3, None]]
    assert [list(line) for line in taus.z] == [[1.0, 1.0], [2.25, None]]


def test_a_figure_without_categories_has_no_maps(comparison):
    figure = comparison_figure(replace(comparison, rows=comparison.rows[:2]))
    assert {trace.type for trace in figure.data} == {"bar"}
