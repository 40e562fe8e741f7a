"""The command line, with a recorder of random runs in place of models; one test decodes with the default pair."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

import treegraft as tg
from tests.strategies import make_run, records_of, write_runs
from treegraft import cli

ROOT = Path(__file__).parents[1]


def treegraft(*arguments: str, columns: int = 200) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)), env={"COLUMNS": str(columns)})


def refused(*arguments: str) -> str:
    """What the command says where it ends with one line and code 2."""
    result = treegraft(*arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    return result.stderr


@pytest.fixture
def recorder(monkeypatch, tmp_path):
    """A `record` that writes random runs; `asked` holds its calls, `during` is called after every round."""
    from treegraft import batch
    from treegraft.models import loader

    fake = SimpleNamespace(asked=[], loaded=None, refuse=set(), during=lambda: None)

    def load(target, drafters, **options):
        fake.loaded = SimpleNamespace(target=target, drafters=drafters, **options)
        return fake.loaded

    def record(pair, prompt, policy, *, writer, on_round, group, index, turn, **options):
        fake.asked.append(SimpleNamespace(prompt=prompt, policy=policy, group=group, index=index, turn=turn, **options))
        if index in fake.refuse:
            raise batch.RunError("the prompt has 9 tokens and the context holds 8.")
        run = make_run(Random(index), [(2, 3)] * 4)
        run.header.group, run.header.index, run.header.turn = group, index, turn
        records, end = records_of(run)[:-1], run.end
        writer.write(records[0])
        writer.pieces(run.pieces)
        try:
            for place, written in enumerate(records[1:]):
                writer.write(written)
                if place:
                    fake.during()
                    on_round(run.rounds[place - 1])
        except KeyboardInterrupt:
            end.reason = "interrupted"
        writer.write(end)
        return SimpleNamespace(run=run, text=run.text)

    monkeypatch.setattr(loader, "load", load)
    monkeypatch.setattr(batch, "record", record)
    monkeypatch.chdir(tmp_path)
    return fake


# --- record ---------------------------------------------------------------------------------------------------------


def test_record_writes_a_trace_and_prints_the_answer(recorder):
    result = treegraft("record", "--prompt", "Why?", "--set", "budget=32", "--max-new-tokens", 9, "--stop", "a",
                       "--stop", "b", "--out", "x.jsonl.zst")
    assert result.exit_code == 0, result.output
    trace = tg.open("x.jsonl.zst")
    assert len(trace.runs) == 1
    (asked,) = recorder.asked
    assert (asked.prompt, asked.policy, asked.raw) == ("Why?", tg.Eagle2(budget=32), False)
    assert (asked.max_new_tokens, asked.stop, asked.drafters) == (9, ["a", "b"], None)
    assert result.stdout.strip("\n").startswith(trace.runs[0].text[:3].strip("\n"))
    assert "tokens/s" in result.stderr
    assert "x.jsonl.zst: 1 run, " in result.stderr


def test_record_says_how_tokens_are_drawn(recorder):
    result = treegraft("record", "--prompt", "Why?", "--temperature", 0.8, "--top-p", 0.9, "--top-k", 40, "--min-p",
                       0.05, "--seed", 7, "--rule", "typical", "--out", "x.jsonl")
    assert result.exit_code == 0, result.output
    (asked,) = recorder.asked
    assert (asked.temperature, asked.top_p, asked.top_k, asked.min_p) == (0.8, 0.9, 40, 0.05)
    assert (asked.seed, asked.rule) == (7, "typical")


def test_record_without_out_chooses_a_new_name(recorder):
    assert treegraft("record", "--prompt", "Why?").exit_code == 0
    (path,) = Path().glob("treegraft-*.jsonl.zst")
    assert tg.open(path).runs


def test_several_prompts_and_turns_go_into_one_file(recorder):
    Path("p.jsonl").write_text('{"category": "code", "text": "one"}\n{"turns": ["two", "three"]}\n{"text": "four"}')
    result = treegraft("record", "--prompt-file", "p.jsonl", "--limit", 2, "--out", "x.jsonl")
    runs = tg.open("x.jsonl").runs
    assert [(run.header.group, run.header.index, run.header.turn) for run in runs] == [
        ("code", 0, 0), ("2", 1, 0), ("2", 1, 1)]
    first, second, third = recorder.asked
    assert (first.prompt, second.prompt) == ("one", "two")
    assert [message["role"] for message in third.prompt] == ["user", "assistant", "user"]
    assert third.prompt[1]["content"] in runs[1].text
    assert result.stdout == ""
    assert "2, turn 2: " in result.stderr


def test_the_token_that_ends_an_answer_is_not_fed_back():
    from treegraft.batch import answer

    run = make_run(Random(0), [(0, 1)])
    run.prefill.root = run.records[0].root = 18
    accept = run.rounds[0].event("accept")
    accept.bonus, accept.discarded = 0, 0
    assert run.text == " w18<|end|>"
    assert answer(run) == " w18"


def test_messages_and_bundled_prompts(recorder):
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    Path("m.json").write_text(json.dumps(messages))
    treegraft("record", "--messages", "m.json", "--out", "m.jsonl")
    assert recorder.asked.pop().prompt == messages
    treegraft("record", "--category", "maths", "--split", "held_out", "--limit", 3, "--out", "b.jsonl")
    assert {asked.group for asked in recorder.asked} == {"maths"}
    assert len(tg.open("b.jsonl").runs) == 3


def test_settings_of_policy_and_drafter_and_model_options(recorder):
    treegraft("record", "--prompt", "x", "--policy", "lookup", "--drafter", "lookup", "--set", "layers=2", "--set",
              "lookup.ngram=3", "--dtype", "bfloat16", "--device", "cpu", "--raw", "--out", "x.jsonl")
    (asked,) = recorder.asked
    assert (asked.policy, asked.drafters, asked.raw) == (tg.Lookup(layers=2), ["lookup"], True)
    assert recorder.loaded.drafters["lookup"].settings == {"ngram": 3}
    assert (recorder.loaded.dtype, recorder.loaded.device) == ("bfloat16", "cpu")
    assert recorder.loaded.trust_remote_code is False


def test_a_policy_without_roles_loads_no_drafter(recorder):
    assert treegraft("record", "--prompt", "x", "--policy", "plain", "--out", "x.jsonl").exit_code == 0
    assert recorder.loaded.drafters == {}


def test_an_existing_trace_is_only_replaced_with_force(recorder):
    path = Path("x.jsonl")
    path.write_text("mine")
    assert "--force" in refused("record", "--prompt", "x", "--out", path)
    assert path.read_text() == "mine"
    assert recorder.loaded is None, "refused before a model was loaded"
    assert treegraft("record", "--prompt", "x", "--out", path, "--force").exit_code == 0
    assert len(tg.open(path).runs) == 1


def test_ctrl_c_ends_the_recording_after_the_round(recorder):
    rounds = iter(range(100))
    recorder.during = lambda: os.kill(os.getpid(), signal.SIGINT) if next(rounds) == 1 else None
    handler = signal.getsignal(signal.SIGINT)
    Path("p.json").write_text('["one", "two"]')
    result = treegraft("record", "--prompt-file", "p.json", "--out", "x.jsonl")
    assert result.exit_code == 130
    assert "Interrupted: the trace is complete up to there." in result.stderr
    trace = tg.open("x.jsonl")
    assert [(len(run.rounds), run.end.reason) for run in trace.runs] == [(2, "interrupted")]
    assert not trace.warnings
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_ctrl_c_does_not_wait_for_the_round(recorder):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("still running")

    recorder.during = twice
    assert treegraft("record", "--prompt", "x", "--out", "x.jsonl").exit_code == 130
    assert tg.open("x.jsonl").runs[0].end.reason == "interrupted"


def test_ctrl_c_before_the_first_run_is_no_mistake(recorder, monkeypatch):
    from treegraft import batch

    def interrupted(*arguments, **options):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("still running")

    monkeypatch.setattr(batch, "record", interrupted)
    result = treegraft("record", "--prompt", "x", "--out", "x.jsonl")
    assert result.exit_code == 130
    assert "nothing was recorded" in result.stderr
    assert not Path("x.jsonl").exists()


def test_a_prompt_that_cannot_run_is_left_out(recorder):
    recorder.refuse = {1}
    Path("p.json").write_text('["one", "two", "three"]')
    result = treegraft("record", "--prompt-file", "p.json", "--out", "x.jsonl")
    assert result.exit_code == 0
    assert [run.header.index for run in tg.open("x.jsonl").runs] == [0, 2]
    assert "2 left out: the prompt has 9 tokens" in result.stderr


def test_a_model_that_fails_late_ends_with_one_line(recorder):
    from treegraft.models.cache import UnsupportedModel

    def fail():
        raise UnsupportedModel("its layers keep no plain keys and values")

    recorder.during = fail
    assert "no plain keys and values" in treegraft("record", "--prompt", "x", "--out", "x.jsonl").stderr
    assert tg.open("x.jsonl").runs[0].end.reason == "error"


def test_nothing_recorded_leaves_no_file(recorder):
    recorder.refuse = {0}
    assert "the prompt has 9 tokens" in refused("record", "--prompt", "x", "--out", "x.jsonl")
    assert not Path("x.jsonl").exists()


@pytest.mark.parametrize(("arguments", "complaint"), [
    ([], "give one of --prompt, --prompt-file, --messages or --category"),
    (["--prompt", "x", "--category", "code"], "give one of"),
    (["--prompt", "x", "--split", "tuning"], "give --category too"),
    (["--category", "cod"], "no category 'cod'"),
    (["--prompt-file", "none.txt"], "none.txt: No such file"),
    (["--prompt", "x", "--policy", "eagel2"], "Did you mean 'eagle2'? Known: plain, chain,"),
    (["--prompt", "x", "--set", "bugdet=3"], "eagle2 has no setting 'bugdet'; it has: budget"),
    (["--prompt", "x", "--set", "budget=0"], "budget was 0; allowed: 1 to 1023"),
    (["--prompt", "x", "--set", "budget"], "write it as NAME=VALUE"),
    (["--prompt", "x", "--set", "lookpu.ngram=3"], "Did you mean 'lookup'?"),
    (["--prompt", "x", "--set", "lookup.ngram=99"], "ngram was 99; allowed"),
    (["--prompt", "x", "--drafter", "stron"], "Did you mean 'strong'?"),
    (["--prompt", "x", "--target", "smolm2"], "Did you mean 'smollm2'?"),
    (["--prompt", "x", "--drafter", "./none"], "There is no folder './none'"),
    (["--prompt", "x", "--drafter", "a" * 5000], "cannot be looked for"),
    (["--prompt", "x", "--drafter", "~nobody-here/x"], "There is no folder"),
    (["--prompt", "x", "--out", "a" * 300 + ".jsonl"], "cannot be written: File name too long"),
    (["--prompt", "x", "--temperature", "-1"], "temperature was -1.0; allowed: 0.0 to 10.0"),
    (["--prompt", "x", "--top-p", "0.9"], "at temperature 0 nothing is drawn"),
    (["--prompt", "x", "--set", "drafting=iid", "--policy", "chain"], "needs a temperature above 0"),
    (["--prompt", "x", "--temperature", "1", "--rule", "traversal"], "eagle2 drafts here can be verified by: points"),
    (["--prompt", "x", "--out", "x.txt"], "ends in .jsonl or .jsonl.zst"),
    (["--prompt", "x", "--out", "none/x.jsonl"], "there is no folder none"),
    (["--prompt", "[red]", "--policy", "[bold]"], "no policy '[bold]'"),
])
def test_mistakes_end_with_one_line(recorder, arguments, complaint):
    assert complaint in refused("record", *arguments)
    assert not list(Path().glob("*.jsonl*"))


def test_raw_prompts_have_one_turn(recorder):
    Path("p.json").write_text('[{"turns": ["one", "two"]}]')
    assert "--raw continues one text" in refused("record", "--prompt-file", "p.json", "--raw")


@pytest.mark.pair
def test_record_for_real(pair, monkeypatch, tmp_path):
    from treegraft.models import loader

    monkeypatch.setattr(loader, "load", lambda target, drafters, **options: pair)
    path = tmp_path / "x.jsonl.zst"
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"turns": ["Say hello.", "Again."]}')
    result = treegraft("record", "--prompt-file", prompts, "--out", path, "--max-new-tokens", 6, "--set", "budget=8",
                       "--set", "depth=2", "--set", "top_k=3")
    assert result.exit_code == 0, result.output
    first, second = tg.open(path).runs
    assert len(first.output) == 6
    assert second.header.prompt.messages[1] == {"role": "assistant", "content": first.text}


# --- show and stats -------------------------------------------------------------------------------------------------


@pytest.fixture
def trace(tmp_path) -> Path:
    runs = [make_run(Random(seed), [(3, 4)] * 3) for seed in range(3)]
    for index, run in enumerate(runs):
        run.header.index, run.header.group = index, "ab"[index % 2]
    return write_runs(tmp_path / "x.jsonl.zst", *runs)


def test_show_draws_a_round_or_the_text(trace):
    drawn = treegraft("show", trace, "--round", 1, "--run", 2)
    assert "target" in drawn.stdout.splitlines()[0]
    assert "Round 1 (0 to 2)" in drawn.stdout
    assert "├─" in drawn.stdout
    overview = treegraft("show", trace)
    assert "Run 0 of 3, 3 rounds." in overview.stdout
    assert overview.stdout.count("│") >= 3
    assert "\x1b" not in drawn.stdout + overview.stdout


@pytest.mark.parametrize(("arguments", "complaint"), [
    (["--round", 3], "--round was 3; run 0 has rounds 0 to 2"),
    (["--round", -1], "--round was -1"),
    (["--run", 3], "has runs 0 to 2"),
])
def test_show_knows_its_range(trace, arguments, complaint):
    assert complaint in refused("show", trace, *arguments)


@pytest.mark.parametrize("command", ["show", "stats"])
def test_files_that_are_no_traces_end_with_one_line(command, tmp_path):
    (tmp_path / "x.jsonl").write_text("{}\n")
    assert "line 1" in refused(command, tmp_path / "x.jsonl")
    assert "there is no such file" in refused(command, tmp_path / "none.jsonl")


@pytest.mark.parametrize("arguments", [["show", "--round", 1], ["stats"]])
def test_a_damaged_round_is_named_with_its_line(arguments, tmp_path):
    path = write_runs(tmp_path / "x.jsonl", make_run(Random(1), [(3, 4)] * 3))
    path.write_text(path.read_text().replace('"index":1', '"index":"one"'))
    assert "line 5, field index" in refused(*arguments, path)


def test_a_cut_trace_is_shown_with_a_warning(trace, tmp_path):
    plain = write_runs(tmp_path / "cut.jsonl", make_run(Random(1), [(3, 4)] * 3))
    plain.write_bytes(plain.read_bytes()[:-5])
    result = treegraft("stats", plain)
    assert result.exit_code == 0
    assert "warning: " in result.stderr
    assert "unfinished (1)" in result.stdout


def test_stats_prints_groups_and_numbers(trace):
    result = treegraft("stats", trace, "--explain")
    assert [line.split()[:2] for line in result.stdout.splitlines()[3:6]] == [["a", "2"], ["b", "1"], ["all", "3"]]
    for title in ("by depth", "Rounds by accepted tokens", "Nodes by origin", "Time by phase", "Definitions"):
        assert title in result.stdout
    assert "Definitions" not in treegraft("stats", trace).stdout


def test_stats_as_json(trace):
    values = json.loads(treegraft("stats", trace, "--json").stdout)
    assert values["all"]["runs"] == 3
    assert values["groups"]["a"]["runs"] == 2
    assert values["all"]["tau"] == pytest.approx(1 + values["all"]["accepted"] / values["all"]["rounds"])


def test_stats_of_a_run_without_rounds(tmp_path):
    result = treegraft("stats", write_runs(tmp_path / "x.jsonl", make_run(Random(1), [])))
    assert result.exit_code == 0
    assert "Acceptance by depth" not in result.stdout


# --- what there is --------------------------------------------------------------------------------------------------


def test_policies_lists_every_setting():
    from treegraft.drafters import DRAFTERS, drafter_class
    from treegraft.policies import POLICIES
    from treegraft.settings import settings_of

    listing = treegraft("policies", columns=600).stdout
    for cls in [*POLICIES.values(), *map(drafter_class, DRAFTERS)]:
        assert cls.name in listing
        for item in settings_of(cls):
            assert any({item.name, str(item.default) or "(empty)"} <= set(line.split()) and item.help in line
                       for line in listing.splitlines())


def test_models_says_what_is_here(monkeypatch, tmp_path):
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    listing = treegraft("models").stdout
    assert "not here yet: treegraft models fetch smollm2" in listing
    assert "strong" in listing


def test_fetch_reports_and_refuses(monkeypatch):
    from treegraft.models import fetch as fetching
    from treegraft.models.errors import FetchError

    stages = []
    def report(model, progress):
        stages.append(model.name)
        progress("downloading", 0.5)

    monkeypatch.setattr(fetching, "fetch", report)
    assert "smollm2 is here" in treegraft("models", "fetch", "smollm2").stdout
    assert stages == ["smollm2"]
    assert "Did you mean 'smollm2'?" in refused("models", "fetch", "smollm")

    def full(model, progress):
        raise FetchError("The disk is full.")

    monkeypatch.setattr(fetching, "fetch", full)
    assert "The disk is full." in refused("models", "fetch", "smollm2")


@pytest.mark.parametrize("command", ["show", "stats", "models", "policies", "record"])
def test_help_starts_without_heavy_libraries(command):
    code = ("import sys; from treegraft.cli import app; app([sys.argv[1], '--help'], standalone_mode=False);"
            "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'pandas', 'streamlit')))")
    done = subprocess.run([sys.executable, "-c", code, command], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
