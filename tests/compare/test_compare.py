"""`treegraft compare` from prompts to tables: whole, interrupted, shared among workers, and refused."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec

import pytest

import treegraft as tg
from tests.compare.own import POLICIES, QUESTIONS, compare, options, write_questions
from tests.test_jobs import two_nodes  # noqa: F401
from treegraft.calibration import Calibration, place, save
from treegraft.compare import job as jobs
from treegraft.compare.folder import Comparing, file_name
from treegraft.compare.report import read_comparison
from treegraft.compare.run import compare_policies
from treegraft.prompts import load
from treegraft.run import RunError

ROWS = ("plain", *POLICIES)


def counted(comparison):
    """What does not depend on the clock."""
    return [(row.policy, row.category, row.prompts, row.turns, row.rounds, row.tokens, row.tau, row.node_yield,
             row.forwards, row.origins, row.same, row.near_ties, row.differing) for row in comparison.rows]


@pytest.fixture
def decodes(monkeypatch):
    """The (policy, prompt, turn) of every decode in this process that counts."""
    found = []
    decode = jobs.decode

    def noting(job, chosen, turn, answers, new_tokens=None):
        if new_tokens is None:
            found.append((chosen.text, job.number, turn))
        return decode(job, chosen, turn, answers, new_tokens)

    monkeypatch.setattr(jobs, "decode", noting)
    return found


def test_a_comparison_leaves_traces_tables_and_plots(finished):
    folder, printed = finished
    names = {path.name for path in folder.iterdir() if path.is_file()}
    assert names == {"compare.json", "measured.json", "table.json", "table.csv", "table.md", "plots.html", "plots.png",
                     *(f"{file_name(row)}.jsonl.zst" for row in ROWS)}
    for words in ("All prompts", "Accepted tokens by origin", "Milliseconds", "Category qa", "float32 on cpu", *ROWS):
        assert words in printed
    assert "differs from plain decoding" not in printed
    assert "Category qa" in (folder / "table.md").read_text()


def test_a_trace_holds_all_turns_of_all_prompts_with_the_time_of_plain_decoding(finished):
    folder, _ = finished
    plain = tg.open(folder / "plain.jsonl.zst")
    for policy in POLICIES:
        trace = tg.open(folder / f"{file_name(policy)}.jsonl.zst")
        trace.check()
        assert trace.warnings == []
        assert [(run.header.index, run.header.turn, run.header.group) for run in trace.runs] == [
            (0, 0, "writing"), (0, 1, "writing"), (1, 0, "qa"), (2, 0, "qa")]
        for run, reference in zip(trace.runs, plain.runs, strict=True):
            assert run.header.prompt.tokens == reference.header.prompt.tokens
            assert run.output == reference.output
            assert (run.end.baseline.tokens, run.end.baseline.microseconds) == (
                reference.end.new_tokens, reference.end.microseconds)


def test_the_answer_of_a_turn_is_in_the_chat_of_the_next(finished):
    folder, _ = finished
    first, second = tg.open(folder / "plain.jsonl.zst").runs[:2]
    asked, answered, again = second.header.prompt.messages
    assert [asked["content"], again["content"]] == QUESTIONS[0]["turns"]
    assert answered["role"] == "assistant"
    assert answered["content"]
    assert first.text.startswith(answered["content"])


def test_policies_take_turns_in_going_first(finished, decodes, folders, tmp_path):
    result = compare(*options(folders, write_questions(tmp_path), tmp_path / "out"), "--category", "qa")
    assert result.exit_code == 0, result.output
    firsts = [decodes[place][0] for place in range(0, len(decodes), len(ROWS))]
    assert firsts == ["plain", POLICIES[0]]
    assert sorted(decodes) == sorted((row, number, 0) for row in ROWS for number in range(2))


def test_a_finished_comparison_decodes_nothing_again(finished, decodes, folders, tmp_path):
    shutil.copytree(finished[0], tmp_path / "out")
    before = (tmp_path / "out" / "table.json").read_bytes()
    result = compare(*options(folders, write_questions(tmp_path), tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert decodes == []
    assert (tmp_path / "out" / "table.json").read_bytes() == before


def test_an_interrupted_comparison_goes_on_and_ends_with_the_same_table(finished, decodes, folders, tmp_path,
                                                                        monkeypatch):
    questions, out = write_questions(tmp_path), tmp_path / "out"
    record = jobs.record

    def interrupted(pair, asked, policy, *, index, **others):
        def stop(round):
            raise KeyboardInterrupt
        return record(pair, asked, policy, index=index, **others,
                      on_round=stop if index == 1 and policy.name == "eagle2" else None)

    monkeypatch.setattr(jobs, "record", interrupted)
    result = compare(*options(folders, questions, out))
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.stderr
    assert not (out / "table.json").exists()
    assert sorted(path.name for path in (out / "parts" / "plain").glob("*.zst")) == ["0000.jsonl.zst"]
    monkeypatch.setattr(jobs, "record", record)
    decodes.clear()
    result = compare(*options(folders, questions, out))
    assert result.exit_code == 0, result.output
    assert {number for _, number, _ in decodes} == {1, 2}
    assert counted(read_comparison(out)) == counted(read_comparison(finished[0]))


def test_a_trace_that_was_cut_off_is_decoded_again(finished, decodes, folders, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished[0], out)
    part = out / "parts" / file_name(POLICIES[0]) / "0002.jsonl.zst"
    part.write_bytes(part.read_bytes()[:-60])
    result = compare(*options(folders, write_questions(tmp_path), out))
    assert result.exit_code == 0, result.output
    assert sorted(decodes) == [(POLICIES[0], 2, 0), ("plain", 2, 0)]
    assert counted(read_comparison(out)) == counted(read_comparison(finished[0]))


def test_another_policy_joins_a_finished_comparison(finished, decodes, folders, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished[0], out)
    result = compare(*options(folders, write_questions(tmp_path), out), "--policy", "lookup")
    assert result.exit_code == 0, result.output
    assert {policy for policy, _, _ in decodes} == {"plain", "lookup"}
    comparison = read_comparison(out)
    assert [row.policy for row in comparison.total] == [*ROWS, "lookup"]
    assert counted(comparison)[: len(ROWS)] == counted(read_comparison(finished[0]))[: len(ROWS)]


def test_two_workers_find_the_same(finished, folders, tmp_path):
    result = compare(*options(folders, write_questions(tmp_path), tmp_path / "out"), "--workers", 2)
    assert result.exit_code == 0, result.output
    assert counted(read_comparison(tmp_path / "out")) == counted(read_comparison(finished[0]))


@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install 'treegraft[ray]'")
@pytest.mark.timeout(400)
def test_ray_finds_the_same(finished, folders, tmp_path, two_nodes):  # noqa: F811
    result = compare(*options(folders, write_questions(tmp_path), tmp_path / "out"), "--engine", "ray", "--workers", 0)
    assert result.exit_code == 0, result.output
    assert counted(read_comparison(tmp_path / "out")) == counted(read_comparison(finished[0]))
    assert "engine ray" in result.stdout


def test_a_prompt_that_is_too_long_is_left_out_and_a_turn_that_is_ends_its_prompt(folders, tmp_path):
    questions = write_questions(tmp_path, [
        {"question_id": "long", "turns": ["word " * 600]}, {"question_id": "short", "turns": ["Say it.", "so " * 600]}])
    result = compare(*options(folders, questions, tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "left out: prompt long: the prompt has" in result.stderr
    assert "left out: prompt short: turn 2: the prompt has" in result.stderr
    setup = read_comparison(tmp_path / "out").setup
    assert (setup.prompts, setup.turns, setup.left_out) == (1, 1, ["long"])
    result = compare(*options(folders, questions, tmp_path / "none"), "--limit", 1)
    assert (result.exit_code, "nothing to compare" in result.stderr) == (2, True)


def test_the_library_does_the_same(finished, folders, tmp_path):
    target, small = map(str, folders)
    heard = []
    comparison = compare_policies(
        target, POLICIES, out=tmp_path / "out", prompts=load(write_questions(tmp_path)), drafters=["lookup", small],
        max_new_tokens=12, dtype="float32", device="cpu", on_prompt=lambda *heard_of: heard.append(heard_of))
    assert counted(comparison) == counted(read_comparison(finished[0]))
    assert heard == [("81", ""), ("201", ""), ("202", "")]
    assert tg.compare_policies is compare_policies


@pytest.mark.parametrize(("more", "words"), [
    (["--policy", "nobody"], "there is no policy 'nobody'"),
    (["--policy", "eagle2:budget=0"], "budget was 0"),
    (["--policy", POLICIES[0]], "given twice"),
    (["--policy", "eagle2@lookup"], "cannot fill the role"),
    (["--policy", "chain:drafting=iid"], "needs a temperature above 0"),
    (["--category", "maths"], "There is no category 'maths' among the prompts of"),
    (["--engine", "slurm"], "unknown engine 'slurm'"),
    (["--workers", "0"], "needs at least 1"),
    (["--max-new-tokens", "13"], "begun with other max_new_tokens"),
])
def test_what_cannot_run_is_refused_in_one_line(finished, folders, tmp_path, more, words):
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(finished[0] / "compare.json", out)
    result = compare(*options(folders, write_questions(tmp_path), out), *more)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert isinstance(result.exception, SystemExit)
    assert not list(out.glob("**/*.zst"))
    assert not (out / "measured.json").exists()


@pytest.mark.parametrize(("line", "words"), [
    ("{}", "line 1: give exactly one of"), ('{"question_id": [1], "turns": ["x"]}', "question_id"),
    ('{"category": "' + "x" * 300 + '", "turns": ["x"]}', "length <= 200"),
    ('{"question_id": 1, "category": "qa", "turns": []}', "length >= 1"), ('{"turns": ["x", 5]}', "Expected `str`"),
    ("not json", "line 1: not JSON"), ("", "no prompt in it")])
def test_broken_question_files_are_refused_with_their_line(tmp_path, line, words):
    (tmp_path / "question.jsonl").write_text(line + "\n")
    result = compare("--prompt-file", tmp_path / "question.jsonl", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (tmp_path / "out").exists()


def test_other_prompts_need_another_folder(finished, folders, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished[0], out)
    questions = write_questions(tmp_path, QUESTIONS[::-1])
    result = compare(*options(folders, questions, out))
    assert (result.exit_code, "begun with other prompts" in result.stderr) == (2, True)
    (out / "measured.json").write_text("[{]")
    result = compare(*options(folders, write_questions(tmp_path), out))
    assert (result.exit_code, "measured.json is damaged" in result.stderr) == (2, True)


def test_a_calibration_made_in_between_needs_another_folder(folders, tmp_path, monkeypatch):
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path / "home"))
    target, small = folders
    asked = ["--target", target, "--drafter", small, "--drafter", "successors", "--dtype", "float32", "--device", "cpu",
             "--policy", "graft:budget=4,top_k=2,depth=2", "--limit", 1, "--max-new-tokens", 4,
             "--prompt-file", write_questions(tmp_path), "--out", tmp_path / "out"]
    assert compare(*asked).exit_code == 0
    assert compare(*asked).exit_code == 0
    save(Calibration(target="target", drafter="small", retriever="successors", gates="0,1,2", tau_d0=0.9, tau_d1=0.9,
                     tau_d5=0.9), place("target", "small", "successors"))
    result = compare(*asked)
    assert (result.exit_code, "begun with other settings" in result.stderr) == (2, True)
    place("target", "small", "successors").write_text("{")
    result = compare(*asked)
    assert (result.exit_code, "is no calibration" in result.stderr) == (2, True)


def test_a_folder_that_cannot_be_made_is_refused(folders, tmp_path):
    questions = write_questions(tmp_path)
    result = compare(*options(folders, questions, questions / "out"))
    assert (result.exit_code, "cannot be made: Not a directory" in result.stderr) == (2, True)


def test_policies_with_one_file_name_are_refused(tiny_pair, tmp_path):
    chosen = [jobs.parse_policy("plain", tiny_pair)] * 2
    with pytest.raises(RunError, match="share a file name"):
        Comparing(tmp_path, jobs.Models("t", {}, {}), chosen, [], 8).claim()


def test_file_names_are_short_and_plain():
    assert file_name("eagle2:budget=15,top_k=4") == "eagle2_budget=15,top_k=4"
    assert "/" not in file_name("rest:rest.path=../../x")
    assert len({file_name("a" * 200), file_name("a" * 201)}) == 2
    assert len(file_name("a/" * 500)) < 120


def test_a_folder_without_a_table_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"table\.json: No such file"):
        read_comparison(tmp_path)
    (tmp_path / "table.json").write_text(json.dumps({"rows": 3}))
    with pytest.raises(ValueError, match="is damaged"):
        read_comparison(tmp_path)
