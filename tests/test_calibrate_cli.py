"""`treegraft calibrate` on tiny models: what it says and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import treegraft as tg
from tests.models.tiny_folders import save_llama
from treegraft import cli
from treegraft.calibration import load, place
from treegraft.models import load as load_pair

SMALL = ("--set", "budget=8", "--set", "top_k=2", "--set", "depth=3", "--max-new-tokens", "6", "--least-auc", "0.5")


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return save_llama(tmp_path_factory.mktemp("models") / "big")


@pytest.fixture
def prompts(tmp_path) -> Path:
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps(["one two three one two", "the quick brown fox"]))
    return path


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run_calibrate(*arguments) -> Result:
    return CliRunner().invoke(cli.app, ["calibrate", *map(str, arguments), "--dtype", "float32", "--device", "cpu"],
                              env={"COLUMNS": "200"})


def test_gates_are_chosen_kept_and_taken(target, prompts, monkeypatch):
    monkeypatch.setattr("sys.argv", ["treegraft", "calibrate", "--target", "my model"])
    result = run_calibrate("--target", target, "--drafter", target, "--drafter", "successors", "--prompt-file", prompts,
                           *SMALL)
    assert result.exit_code == 0, result.output
    found = load(place("big", "big", "successors"))
    assert found.prompts == 2
    assert found.arguments in result.output
    assert "no gates:" in result.output
    assert found.command == "treegraft calibrate --target 'my model'"
    pair = load_pair(target, [str(target), "successors"], device="cpu", dtype="float32")
    run = tg.record(pair, "one two", tg.policies.Graft(budget=8, top_k=2, depth=3), max_new_tokens=3, costs=False).run
    assert {name: run.header.policy.settings[name] for name in found.settings} == found.settings


def test_the_file_can_go_elsewhere(target, prompts, tmp_path, own_home):
    out = tmp_path / "mine.json"
    result = run_calibrate("--target", target, "--drafter", target, "--drafter", "successors", "--prompt-file", prompts,
                           "--limit", 1, "--out", out, *SMALL)
    assert result.exit_code == 0, result.output
    assert load(out).prompts == 1
    assert not own_home.exists()


@pytest.mark.parametrize(("arguments", "words"), [
    (("--drafter", "eagle3"), "takes two: the drafter, then the retriever"), (("--out", "gates.txt"), "new .json file"),
    (("--set", "tau_d5=2"), "tau_d5 was 2.0"), (("--set", "width=2"), "has no setting 'width'"),
    (("--prompt-file", "nowhere.json"), "nowhere.json"),
    (("--drafter", "successors", "--drafter", "successors"), "successors was given twice")])
def test_what_does_not_fit_is_refused(arguments, words):
    result = run_calibrate(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_retriever_that_does_not_fit_is_refused_for_its_role(target, prompts):
    result = run_calibrate("--target", target, "--drafter", target, "--drafter", "lookup", "--prompt-file", prompts)
    assert (result.exit_code, "cannot fill the role 'retriever'" in result.stderr) == (2, True)


def test_a_file_is_not_replaced_unasked(tmp_path):
    (tmp_path / "c.json").write_text("{}")
    assert "--force to replace it" in run_calibrate("--out", tmp_path / "c.json").stderr


def test_a_retriever_that_learns_from_rejected_nodes_is_refused(target, prompts):
    result = run_calibrate("--target", target, "--drafter", target, "--drafter", "successors", "--prompt-file", prompts,
                           "--set", "successors.learn=all", *SMALL)
    assert result.exit_code == 2
    assert "Calibrate with its setting learn=committed" in result.stderr
