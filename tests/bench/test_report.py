"""Tables, Markdown, JSON and files."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from treegraft.bench import files, report
from treegraft.bench.errors import BenchError
from treegraft.bench.machine import Machine
from treegraft.bench.runner import Bench, Setup
from treegraft.bench.samples import BARE, ENGINE, GENERATE, PLAIN, VERIFY, Difference, ForwardTime, Sample

SETUP = Setup(target="big", parameters=135_000_000, dtype="float32", device="cpu", date="2026-01-31", prompts=12,
              prompt_tokens=600, max_new_tokens=120, repeats=5)
MACHINE = Machine(cpu="Fast 9000", system="Linux x86_64", cores=2, threads=2, accelerator="", fast_bf16=False, load=0.1,
                  memory_kept=True, python="3.11", torch="2.13", transformers="5.24", treegraft="0.1")
BEGIN, END = files.marks(report.PLACE)
TIMES = {"prefill": 100_000, "phases": {"draft": 100_000, "verify": 300_000}, "forwards": 360_000}


def sample(row: str, microseconds: int, **fields) -> Sample:
    return Sample(row, 0, 0, tuple(range(20)), microseconds, **({"rounds": 20, "accepted": 0} | fields))


@pytest.fixture
def bench() -> Bench:
    samples = [sample(GENERATE, 1_000_000), sample(PLAIN, 800_000, **TIMES),
               sample("a|<b>", 500_000, **TIMES | {"rounds": 10, "accepted": 15}),
               sample("a|<b>", 520_000, **TIMES, recorded=True, recording=5_000)]
    times = [ForwardTime(BARE, 1, 0, 20_000), ForwardTime(ENGINE, 1, 0, 21_000), ForwardTime(VERIFY, 1, 0, 20_000),
             ForwardTime(VERIFY, 64, 0, 50_000)]
    return Bench(SETUP, MACHINE, samples, [Difference("a|<b>", 0, 7, 3e-5, True)], times, interrupted=False)


def printed(bench: Bench) -> str:
    screen = Console(width=300, markup=False, record=True, file=io.StringIO())
    for part in report.on_terminal(bench):
        screen.print(part)
    return screen.export_text()


def line(text: str, start: str) -> str:
    """The first line that starts like this, with single spaces."""
    return " ".join(next(line for line in text.splitlines() if line.startswith(start)).split())


def test_terminal_shows_speed_time_and_forwards(bench):
    text = printed(bench)
    assert line(text, "a|<b>") == "a|<b> 40.0 2.00 (2.00 to 2.00) 2.00 1.60 2.50 0 1 0"
    assert line(text[text.index("Time in our loop"):], "a|<b>") == (
        "a|<b> 20.0% 25.0% 75.0% 0.0% 0.0% 10.0% (10.0% to 10.0%) 1.0% (1.0% to 1.0%) 1.040 (1.040 to 1.040)")
    assert line(text, "engine forward") == "engine forward 1 21.0 bare model call(1) 1.05 (1.05 to 1.05)"
    assert line(text, "verify  ") == "verify 64 50.0 verify(1) 2.50 (2.50 to 2.50)"


def test_conditions_tell_the_machine_and_what_is_doubtful(bench):
    text = printed(bench)
    for words in ("Fast 9000", "cores: 2, threads: 2", "big (135 M parameters), float32 on cpu", "fast bfloat16: no",
                  "prompts: 12", "transformers 5.24", "2026-01-31"):
        assert words in text
    assert "busy" not in text
    assert "Interrupted" not in text
    doubtful = printed(replace(bench, machine=replace(MACHINE, load=3.0), interrupted=True))
    assert "The machine was busy: load 3.0 on 2 cores" in doubtful
    assert "Interrupted after 1 of 60 passes" in doubtful


def test_a_benchmark_without_forwards_has_two_tables(bench):
    assert "Single forwards" in printed(bench)
    assert "Single forwards" not in printed(replace(bench, forwards=[]))


def test_markdown_tables_are_whole_and_names_are_text(bench):
    text = report.as_markdown(bench)
    assert "a\\|&lt;b>" in text
    assert "<b>" not in text
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    assert len(tables) == 3
    for rows in tables:
        assert len({row.replace("\\|", "").count("|") for row in rows}) == 1
    assert text.index("### Speed") < text.index("### Time in our loop") < text.index("### Single forwards")


def test_json_holds_measurements_and_what_follows(bench):
    values = json.loads(report.as_json(bench))
    assert values["setup"]["target"] == "big"
    assert values["machine"]["cpu"] == "Fast 9000"
    assert [row["name"] for row in values["rows"]] == [GENERATE, PLAIN, "a|<b>"]
    assert values["rows"][2]["over_generate"] == {"median": 2.0, "low": 2.0, "high": 2.0, "count": 1}
    assert values["samples"][0]["tokens"] == 20
    assert "output" not in values["samples"][0]
    assert values["differences"][0]["margin"] == 3e-5
    assert len(values["forward_times"]) == 4


def test_markdown_goes_into_its_place_again_and_again(bench, tmp_path):
    path = tmp_path / "benchmarks.md"
    path.write_text(f"# Speed\n\n{BEGIN}\nold numbers\n{END}\n\nThe end.\n")
    for _ in range(2):
        report.write_markdown(path, bench)
    text = path.read_text()
    assert text.startswith("# Speed\n\n")
    assert text.endswith("\n\nThe end.\n")
    assert "old numbers" not in text
    assert text.count("### Speed") == text.count(BEGIN) == text.count(END) == 1


def test_a_new_markdown_file_can_be_written_to_again(bench, tmp_path):
    path = tmp_path / "new.md"
    report.write_markdown(path, bench)
    first = path.read_text()
    report.write_markdown(path, bench)
    assert path.read_text() == first
    assert report.as_markdown(bench) in first


@pytest.mark.parametrize(("option", "name", "words"), [
    ("--json", "old.json", "exists; name another file"),
    ("--markdown", "old.md", "has no place for the result"),
    ("--json", "nowhere/new.json", "there is no folder"),
    ("--markdown", "folder", "is a folder"),
])
def test_places_that_cannot_be_written_are_refused_at_once(tmp_path, option, name, words):
    (tmp_path / "old.json").write_text("{}")
    (tmp_path / "old.md").write_text(f"# Mine\n{END}\n{BEGIN}\n")
    (tmp_path / "folder").mkdir()
    with pytest.raises(BenchError, match=words):
        files.check_file(tmp_path / name, option, report.PLACE if option == "--markdown" else "")


def test_places_that_can_be_written_are_left_as_they_are(tmp_path):
    (tmp_path / "old.md").write_text(f"{BEGIN}{END}")
    files.check_file(tmp_path / "old.md", "--markdown", report.PLACE)
    files.check_file(tmp_path / "new.json", "--json")
    assert [path.name for path in tmp_path.iterdir()] == ["old.md"]


def test_a_file_that_fails_half_way_leaves_the_old_one(bench, tmp_path, monkeypatch):
    path = tmp_path / "out.json"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BenchError, match="No space left on device"):
        files.write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
