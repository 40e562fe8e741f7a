"""From prompts to decisions on tiny models: values, a trained scheduler, runs that it decides, what-ifs on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import treegraft as tg
from tests.models.tiny_folders import save_llama
from treegraft import cli
from treegraft.scheduler import survey
from treegraft.scheduler.files import load
from treegraft.scheduler.survey import COSTS

PROMPTS = ["the quick brown fox", "fox the fox the fox", "jumps over the lazy dog", "over and over and over"]
SETTINGS = ("--set", "layers=3", "--set", "top_k=3", "--set", "budget=9", "--set", "survive_empty=true")


def treegraft(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)), env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a target, a drafter and prompts."""
    folder = tmp_path_factory.mktemp("cycle")
    save_llama(folder / "target", seed=1)
    save_llama(folder / "strong", seed=1)
    (folder / "prompts.json").write_text(json.dumps(PROMPTS))
    return folder


def models(place: Path) -> list[object]:
    return ["--target", place / "target", "--drafter", "lookup", "--drafter", place / "strong", "--dtype", "float32"]


def record_values(place: Path, out: str, *options: object) -> Result:
    return treegraft("values", *models(place), "--prompt-file", place / "prompts.json", "--max-new-tokens", 10, "--out",
                     place / out, *SETTINGS, *options)


@pytest.fixture(scope="module")
def recorded(place) -> Path:
    result = record_values(place, "values")
    assert result.exit_code == 0, result.output
    assert "4 of 4 prompts recorded" in result.output
    return place / "values"


@pytest.fixture(scope="module")
def scheduler(place, recorded) -> Path:
    result = treegraft("distill-scheduler", recorded, "--out", place / "scheduler", "--held-out", 0.5)
    assert result.exit_code == 0, result.output
    for words in ("oracle", "never", "always", "best fixed layers", "calibration", "agreement"):
        assert words in result.output
    return place / "scheduler"


def test_values_are_recorded_once(place, recorded):
    files = sorted(recorded.glob("*.jsonl.zst"))
    assert [file.name for file in files] == [f"{number:04d}.jsonl.zst" for number in range(4)]
    before = [file.stat().st_mtime_ns for file in files]
    files[2].unlink()
    result = record_values(place, "values")
    assert result.exit_code == 0, result.output
    after = [file.stat().st_mtime_ns for file in files]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, False, True]


@pytest.mark.parametrize("place_of_it", ["on_round", "on_probe"])
def test_an_interrupted_prompt_is_recorded_again(place, tmp_path, monkeypatch, place_of_it):
    """An interrupt ends a recording in good order: what it leaves must not be taken for a whole trace."""
    def record(*arguments, index, **options):
        def stop(*_):
            if index == 1:
                raise KeyboardInterrupt
        return tg.record(*arguments, index=index, **options, **{place_of_it: stop})
    monkeypatch.setattr(survey, "record", record)
    result = record_values(place, tmp_path / "values")
    assert result.exit_code == 130
    assert [file.name for file in sorted((tmp_path / "values").iterdir())] == ["0000.jsonl.zst", COSTS, survey.SURVEY]
    monkeypatch.undo()
    result = record_values(place, tmp_path / "values")
    assert "4 of 4 prompts recorded" in result.output


@pytest.mark.parametrize(("options", "words"), [
    (("--set", "budget=8"), "begun with other policy"), (("--max-new-tokens", 9), "begun with other max_new_tokens"),
    (("--set", "lookup.ngram=3"), "begun with other drafters"), (("--prompt-file", "other.json"), "other prompts")])
def test_a_folder_belongs_to_one_set_of_prompts_and_settings(place, recorded, options, words):
    (place / "other.json").write_text(json.dumps(PROMPTS[::-1]))
    result = record_values(place, "values", *(place / one if one == "other.json" else one for one in options))
    assert result.exit_code == 2
    assert words in result.output


def test_more_or_fewer_of_the_same_prompts_go_on(place, tmp_path):
    for limit in (1, 2, 1):
        result = record_values(place, tmp_path / "values", "--limit", limit)
        assert result.exit_code == 0, result.output
    assert len(list((tmp_path / "values").glob("*.zst"))) == 2
    assert len(json.loads((tmp_path / "values" / survey.SURVEY).read_text())["prompts"]) == 2
    (tmp_path / "values" / survey.SURVEY).write_text("[]")
    assert "is damaged" in record_values(place, tmp_path / "values").output


def test_values_cannot_be_written_into_a_file(place, tmp_path):
    (tmp_path / "values").write_text("")
    result = record_values(place, tmp_path / "values")
    assert (result.exit_code, type(result.exception)) == (2, SystemExit)


def test_all_traces_share_the_costs_that_were_measured_first(recorded):
    curves = json.loads((recorded / COSTS).read_text())
    for file in recorded.glob("*.jsonl.zst"):
        header = tg.open(file).runs[0].header
        assert header.level == "exhaustive"
        assert [[list(point) for point in curve.points] for curve in header.costs] == [one["points"] for one in curves]


def test_a_trained_scheduler_says_what_it_was_made_from(scheduler):
    made = load(scheduler)
    assert made.provenance["recorded prompts"] == 4
    assert made.provenance["policy"]["layers"] == 3
    facts = json.loads((scheduler / "report.json").read_text())
    assert {"all"} <= set(facts["speeds"])
    assert facts["states"] > 0
    assert facts["impossible"] >= 0


def test_a_run_is_decided_by_the_scheduler_and_replayed(place, scheduler):
    out = place / "run.jsonl"
    result = treegraft("record", *models(place), "--policy", "treegraft", "--scheduler", scheduler, "--prompt",
                       PROMPTS[0], "--max-new-tokens", 10, "--out", out, "--level", "exhaustive", *SETTINGS)
    assert result.exit_code == 0, result.output
    header = tg.open(out).runs[0].header
    assert header.scheduler.name == "scheduler"
    assert header.clock.call_budget == 5
    result = treegraft("whatif", out, "--threshold=-1..1:3", "--budget", "3,9", "--json")
    assert result.exit_code == 0, result.output
    outcomes = json.loads(result.output)
    assert len(outcomes) == 7
    assert all(one["problem"] == "" and one["estimated_tokens_per_second"] > 0 for one in outcomes)
    assert outcomes[0]["rounds"] == len(tg.open(out).runs[0].rounds)


def test_another_scheduler_decides_in_a_replay(recorded, scheduler):
    result = treegraft("whatif", recorded / "0000.jsonl.zst", "--scheduler", scheduler, "--set", "schedule=scheduler",
                       "--threshold=-1e6,1e6", "--json")
    assert result.exit_code == 0, result.output
    always, eager, shy = json.loads(result.output)
    assert (eager["calls"], shy["calls"]) == (always["calls"], 0)


def test_a_policy_without_its_scheduler_says_what_to_do(place):
    result = treegraft("record", *models(place), "--policy", "treegraft", "--prompt", "hi", "--out", place / "x.jsonl")
    assert result.exit_code == 2
    for words in ("no scheduler", "treegraft distill-scheduler", "always"):
        assert words in result.output
    assert not (place / "x.jsonl").exists()


@pytest.mark.parametrize(("options", "words"), [
    (("--budget", "0"), "budget was 0; allowed: 1 to 1023"), (("--budget", "8..2"), "LOW..HIGH"),
    (("--set", "width=3"), "has no width"), (("--depth", "x"), "layers was 'x'"),
    (("--set", "schedule=1..3"), "takes no range"), (("--threshold", "1,2"), "add --set schedule=scheduler"),
    (("--scheduler", "nowhere"), "There is no scheduler in nowhere"), (("--run", "7"), "has runs 0 to 0"),
    (("--set", "lookup.ngram=3"), "only settings of the policy can be changed"),
    (("--budget", f"1..{'9' * 400}"), "allowed: 1 to 1023"),
    (("--set", "schedule=scheduler", "--threshold=-1..1:9999", "--budget", "1..1023:9999"),
     "10228977 combinations; allowed: 1000")])
def test_whatif_refuses_in_plain_words(recorded, options, words):
    result = treegraft("whatif", recorded / "0000.jsonl.zst", *options)
    assert result.exit_code == 2
    assert words in result.output


def test_a_combination_that_the_policy_refuses_is_a_row(recorded):
    result = treegraft("whatif", recorded / "0000.jsonl.zst", "--depth", "2,3", "--set",
                       "schedule=never,3")
    assert result.exit_code == 0, result.output
    assert result.output.count("not recorded: schedule was '3'") == 1


def test_whatif_says_what_was_not_recorded(place, recorded):
    result = treegraft("whatif", recorded / "0000.jsonl.zst", "--set", "top_k=2,9", "--depth", "1..3")
    assert result.exit_code == 0, result.output
    assert result.output.count("not recorded: ") == 3
    plain = place / "plain.jsonl"
    treegraft("record", *models(place), "--policy", "treegraft", "--set", "schedule=always", "--prompt", "hi there",
              "--out", plain, "--max-new-tokens", 5)
    result = treegraft("whatif", plain)
    assert "--level dense or exhaustive" in result.output


@pytest.mark.parametrize(("arguments", "words"), [
    (("--drafter", "lookup"), "takes two"),
    (("--drafter", "{strong}", "--drafter", "lookup"), "cannot fill the role 'strong'"),
    (("--set", "schedule=maybe"), "schedule was 'maybe'")])
def test_values_refuses_in_plain_words(place, arguments, words):
    arguments = [argument.format(strong=place / "strong") for argument in arguments]
    result = treegraft("values", "--target", place / "target", "--out", place / "none", *arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_traces_of_another_policy_teach_no_scheduler(place, tmp_path):
    for number in range(2):
        treegraft("record", *models(place)[:2], "--dtype", "float32", "--drafter", "lookup", "--policy", "lookup",
                  "--prompt", "hi there", "--max-new-tokens", 3, "--out", tmp_path / f"{number}.jsonl")
    result = treegraft("distill-scheduler", tmp_path, "--out", tmp_path / "s")
    assert result.exit_code == 2
    assert "the policy lookup has no calls to decide on" in result.output


def test_too_few_prompts_to_train_on(place, tmp_path):
    result = treegraft("distill-scheduler", tmp_path, "--out", tmp_path / "s")
    assert result.exit_code == 2
    assert "0 recorded prompts; needed: 2 or more" in result.output
