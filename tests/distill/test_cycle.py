"""A whole cycle on a tiny random target: write a corpus, train both drafters, read them back, decode with them."""

from __future__ import annotations

import copy
import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner, Result

import treegraft as tg
from tests import tiny
from tests.distill import tiny_chat
from treegraft import cli
from treegraft.distill.train import Trainer
from treegraft.models.pairs import DrafterSpec
from treegraft.shell import INTERRUPTED

QUICK = ("--batch-tokens", 400, "--epochs", 3, "--warmup", 2, "--held-out", 4, "--validate-every", 4)
PROMPT = "Why"


def treegraft(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)), env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a target and the corpus that it wrote."""
    folder = tmp_path_factory.mktemp("cycle")
    config = copy.deepcopy(tiny.CONFIGS["llama"])
    config.initializer_range = 0.1
    torch.manual_seed(3)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder / "target")
    tiny_chat.tokenizer().save_pretrained(folder / "target")
    result = treegraft("distill", "corpus", "--target", folder / "target", "--out", folder / "corpus.jsonl.zst",
                       "--conversations", 24, "--rows", 4, "--max-question", 60, "--max-answer", 24)
    assert result.exit_code == 0, result.output
    return folder


def invoke(place: Path, kind: str, out: str, *options: object) -> Result:
    return treegraft("distill", kind, "--target", place / "target", "--corpus", place / "corpus.jsonl.zst", "--out",
                     place / out, "--dtype", "float32", *QUICK, *options)


def distilled(place: Path, kind: str, out: str, *options: object) -> Path:
    """The folder of a drafter that was trained to the end."""
    result = invoke(place, kind, out, *options)
    assert result.exit_code == 0, result.output
    return place / out


KINDS = {"lm": ("--layers", "0,2"), "eagle3": ("--aux-layers", "0,1,2", "--draft-vocab", 40)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_distilled_drafter_drafts(place, kind):
    folder = distilled(place, kind, kind, *KINDS[kind])
    pair = tg.load(place / "target", {"student": DrafterSpec(kind, folder)}, dtype="float32")
    texts = [tg.record(pair, PROMPT, policy, max_new_tokens=24, costs=False)
             for policy in (tg.Plain(), tg.Eagle2(budget=16, top_k=4, depth=3), tg.Chain())]
    assert texts[0].run.output == texts[1].run.output == texts[2].run.output
    assert all(step.tree.size > 1 for step in texts[1].run.rounds)
    assert texts[1].run.header.drafters[0].proposes == {"lm": None, "eagle3": 40}[kind]
    card = (folder / "README.md").read_text()
    for fact in ("treegraft distill", "corpus.jsonl.zst", "24 conversations", "held-out", "seed 0", "tau of a short"):
        assert fact in card
    treegraft("distill", "curve", folder, "--out", place / f"{kind}.html")
    assert "same favourite as the target" in (place / f"{kind}.html").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_on_from_a_drafter(place, kind):
    first = distilled(place, kind, f"{kind}-first", *KINDS[kind])
    options = KINDS[kind] if kind == "lm" else ()
    second = distilled(place, kind, f"{kind}-second", *options, "--start-from", first)
    before, after = (load_file(folder / "model.safetensors") for folder in (first, second))
    assert before.keys() == after.keys()
    assert any(not before[name].equal(after[name]) for name in before)
    assert f"{first.name}" in (second / "README.md").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_training_writes_the_same_drafter(place, kind, monkeypatch):
    whole = distilled(place, kind, f"{kind}-whole", *KINDS[kind])
    step = Trainer._step

    def interrupted_step(trainer: Trainer) -> None:
        step(trainer)
        if trainer.progress.step == 6:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", interrupted_step)
        result = invoke(place, kind, f"{kind}-cut", *KINDS[kind])
    assert result.exit_code == INTERRUPTED
    assert "the same command goes on" in result.stderr
    resumed = distilled(place, kind, f"{kind}-cut", *KINDS[kind])
    assert (resumed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize(("options", "words"), [
    (("eagle3", "--start-from", "x", "--draft-vocab", 9), "own draft vocabulary"),
    (("eagle3", "--aux-layers", "0,1,9"), "from 0 to 2"),
    (("eagle3", "--aux-layers", "0;1"), "with commas between"),
    (("lm", "--layers", "7,9"), "from 0 to 2"),
    (("lm", "--layers", "1,1"), "different numbers"),
    (("lm", "--layers", "6"), "1 to 3"),
    (("lm", "--layers", "2", "--limit", 3), "none is left to train on"),
])
def test_what_cannot_be_trained_is_refused_in_one_line(place, options, words):
    kind, *rest = options
    result = invoke(place, kind, "refused", *rest)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("error: ") == 1


def test_a_folder_that_cannot_be_made_is_refused(place):
    (place / "file").write_text("")
    result = invoke(place, "lm", "file/inside", *KINDS["lm"])
    assert result.exit_code == 2
    assert "error: " in result.stderr


def test_only_pages_are_drawn(place):
    for folder, out, words in ((place, "x.png", "must end in .html"), (place, "x.html", "no validation")):
        result = treegraft("distill", "curve", folder, "--out", place / out)
        assert result.exit_code == 2
        assert words in result.stderr


def test_a_start_of_another_shape_is_refused(place):
    first = distilled(place, "lm", "two-layers", "--layers", "0,2")
    result = invoke(place, "lm", "three-layers", "--layers", "0,1,2", "--start-from", first)
    assert result.exit_code == 2
    assert "another shape" in result.stderr
