"""`treegraft warm` on a tiny target: what it learns, what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

import treegraft as tg
from tests.decoding import plain_generate
from tests.models.tiny_folders import save_llama
from treegraft import cli, warm
from treegraft.drafters.successors import WIDTH
from treegraft.models import load
from treegraft.models.successors_files import DESCRIPTION
from treegraft.policies import TokenRecycling
from treegraft.prompts import Prompt
from treegraft.warm import WarmUp

TEXTS = ["the quick brown fox", "one two three one two", "x" * 30]


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return save_llama(tmp_path_factory.mktemp("models") / "big")


@pytest.fixture(scope="module")
def pair(target):
    return load(target, ["lookup"], device="cpu", dtype="float32")


@pytest.fixture
def prompts(tmp_path) -> Path:
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps(TEXTS))
    return path


def run_warm(*arguments) -> Result:
    return CliRunner().invoke(cli.app, ["warm", *map(str, arguments), "--dtype", "float32", "--device", "cpu"],
                              env={"COLUMNS": "200"})


def refused(*arguments) -> str:
    result = run_warm(*arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("error: ")
    return result.stderr


def read(pair, texts, new_tokens: int = 8) -> tuple[WarmUp, list[str]]:
    found = WarmUp()
    problems = [problem for _, problem in found.read(pair, [Prompt(text[:9], (text,)) for text in texts], new_tokens)]
    return found, problems


def listed(rows) -> dict[int, list[int]]:
    return dict(zip(rows.tokens.tolist(), rows.successors.tolist(), strict=True))


def expected(model, prompts: list[list[int]], new_tokens: int) -> dict[int, list[int]]:
    """The target's best next tokens after the last place of each token, by one pass over each whole text."""
    rows: dict[int, list[int]] = {}
    for prompt in prompts:
        text = [*prompt, *plain_generate(model, prompt, new_tokens)][:-1]
        with torch.inference_mode():
            best = model(torch.tensor([text])).logits[0].topk(WIDTH).indices.tolist()
        rows |= dict(zip(text, best, strict=True))
    return rows


def test_it_learns_every_position_of_prompts_and_answers(pair):
    found, problems = read(pair, TEXTS)
    prompts = [pair.target.tokenizer(text)["input_ids"] for text in TEXTS]
    assert problems == ["", "", ""]
    assert listed(found.rows) == expected(pair.target.model, prompts, 8)
    assert found.texts == 3
    assert found.positions == sum(len(prompt) + len(plain_generate(pair.target.model, prompt, 8)) - 1
                                  for prompt in prompts)


def test_prompts_that_cannot_be_read_are_left_out(pair):
    found, problems = read(pair, [TEXTS[0], "y" * 2000, " "])
    assert (found.texts, problems[0]) == (1, "")
    assert "no room for an answer" in problems[1]
    assert "empty" in problems[2]


def test_the_first_turn_of_a_conversation_is_read_behind_its_history(pair):
    """This target has no chat template to set them in, and says so."""
    prompt = Prompt("p", ("second question", "third"), history=({"role": "user", "content": "first"},))
    (_, problem), = WarmUp().read(pair, [prompt], 4)
    assert "Chat messages need a chat template" in problem


def test_the_command_writes_a_drafter_that_runs(target, prompts, tmp_path):
    out = tmp_path / "new" / "rows"
    result = run_warm("--target", target, "--prompts", prompts, "--max-new-tokens", 6, "--limit", 2, "--out", out)
    assert result.exit_code == 0, result.output
    said = json.loads((out / DESCRIPTION).read_text())
    assert f"{said['rows']} rows, from {said['positions']} positions of 2 texts" in result.stdout
    assert said["target"] == "big"
    pair = load(target, [str(out)], device="cpu", dtype="float32")
    run = tg.record(pair, TEXTS[0], TokenRecycling(), max_new_tokens=8, costs=False).run
    plain = tg.record(pair, TEXTS[0], tg.Plain(), max_new_tokens=8, costs=False).run
    assert run.output == plain.output
    info, = run.header.drafters
    assert (info.kind, info.name, info.state) == ("successors", "rows", "history")
    assert info.memory.startswith(f"{said['rows']} rows, sha256 ")
    assert sum(round.accepted for round in run.rounds) > 0


def test_the_bundled_prompts_are_read_where_none_are_given(target, tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(warm.WarmUp, "_learn", lambda self, pair, tokens, new: read.append(new))
    run_warm("--target", target, "--limit", 3, "--out", tmp_path / "rows")
    assert read == [64] * 3
    assert "there is no split" in refused("--target", target, "--split", "nope", "--out", tmp_path / "rows").lower()


def test_ctrl_c_writes_nothing(target, prompts, tmp_path, monkeypatch):
    learn = warm.WarmUp._learn

    def interrupted(self, *arguments):
        learn(self, *arguments)
        if self.texts == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(warm.WarmUp, "_learn", interrupted)
    result = run_warm("--target", target, "--prompts", prompts, "--max-new-tokens", 2, "--out", tmp_path / "rows")
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr
    assert not (tmp_path / "rows").exists()


def test_places_that_cannot_take_it_are_refused_before_anything_is_loaded(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("here")
    assert "is not empty; give a new folder" in refused("--target", "/no/such", "--out", tmp_path / "full")
    assert "cannot be written into" in refused("--target", "/no/such", "--out", tmp_path / "full" / "x" / "rows")
    assert "cannot be written" in refused("--target", "/no/such", "--out", "a" * 5000)


def test_prompts_of_which_none_fits_are_refused(target, tmp_path):
    (tmp_path / "long.json").write_text(json.dumps(["y" * 2000]))
    result = run_warm("--target", target, "--prompts", tmp_path / "long.json", "--out", tmp_path / "rows")
    assert result.exit_code == 2
    assert "no prompt could be read" in result.stderr
    assert not (tmp_path / "rows").exists()


def test_a_file_without_prompts_is_refused(target, tmp_path):
    file = tmp_path / "none.json"
    file.write_text("[]")
    assert "no prompt in it" in refused("--target", target, "--prompts", file, "--out", tmp_path / "rows")
