"""`treegraft bench` as the user meets it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from treegraft import cli
from treegraft.bench import command
from treegraft.bench.files import marks
from treegraft.bench.report import PLACE


def bench(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["bench", *map(str, arguments)], env={"COLUMNS": "250"})


@pytest.fixture
def own_models(folders) -> list[str]:
    """Options that name the tiny pair."""
    target, drafter = map(str, folders)
    return ["--target", target, "--drafter", "lookup", "--drafter", drafter, "--dtype", "float32", "--device", "cpu"]


def test_own_models_and_prompts_end_to_end(own_models, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("The quick brown fox")
    result = bench(*own_models, "--prompts", prompts, "--max-new-tokens", 6, "--repeats", 1, "--policy",
                   "eagle2:budget=5,top_k=2,depth=2", "--json", tmp_path / "b.json", "--markdown", tmp_path / "b.md")
    assert result.exit_code == 0, result.output
    for words in ("generate: assisted by small", "eagle2:budget=5", "Time in our loop", "Single forwards"):
        assert words in result.stdout
    values = json.loads((tmp_path / "b.json").read_text())
    assert [row["name"] for row in values["rows"]][-1] == "eagle2:budget=5,top_k=2,depth=2"
    assert all(row["same"] + row["near_ties"] == 1 for row in values["rows"])
    assert marks(PLACE)[0] in (tmp_path / "b.md").read_text()


@pytest.mark.parametrize(("arguments", "words"), [
    (["--policy", "nobody"], "there is no policy 'nobody'"),
    (["--policy", "eagle2:budget=0"], "budget was 0; allowed: 1 to 1023"),
    (["--max-new-tokens", 600], "do not fit into the context"),
])
def test_what_cannot_run_is_refused_in_one_line(own_models, arguments, words):
    result = bench(*own_models, *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert words in result.stderr
    assert isinstance(result.exception, SystemExit)


def test_files_are_checked_before_models_are_loaded(tmp_path):
    result = bench("--target", tmp_path / "nothing", "--json", tmp_path / "no" / "b.json")
    assert (result.exit_code, "there is no folder" in result.stderr) == (2, True)
    result = bench("--target", tmp_path / "nothing", "--prompts", tmp_path / "no.txt")
    assert (result.exit_code, "No such file" in result.stderr) == (2, True)


@pytest.mark.parametrize(("finished", "code", "words"), [
    (0, 2, "nothing to report"), (1, 130, "Interrupted after 1 of 12")])
def test_ctrl_c_prints_what_there_is(own_models, monkeypatch, finished, code, words):
    passes = []
    decoding = command.Meter.decoding

    def interrupt(self, what):
        if "generate: plain, prompt" in what:
            if len(passes) == finished:
                raise KeyboardInterrupt
            passes.append(what)
        decoding(self, what)

    monkeypatch.setattr(command.Meter, "decoding", interrupt)
    result = bench(*own_models, "--max-new-tokens", 4, "--repeats", 1, "--policy", "plain")
    assert result.exit_code == code, result.output
    assert words in result.output


@pytest.mark.pair
def test_the_default_pair_end_to_end(pair):
    result = bench("--limit", 1, "--max-new-tokens", 8, "--repeats", 1, "--dtype", "float32", "--device", "cpu",
                   "--policy", "plain", "--policy", "lookup", "--policy", "eagle2:budget=15,top_k=4,depth=3")
    assert result.exit_code == 0, result.output
    assert "generate: assisted by strong" in result.stdout
    speeds = [row.split() for row in result.stdout.splitlines() if "eagle2:budget=15" in row]
    assert speeds[0][-1] == "0"
