"""Training goes down, stops when it no longer helps, and after an interrupt comes to the same weights."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.distill.examples import random_examples
from treegraft.distill.data import Batch
from treegraft.distill.errors import DistillError
from treegraft.distill.history import HISTORY, read_history
from treegraft.distill.train import Recipe, Trainer, schedule

CPU = torch.device("cpu")
RECIPE = Recipe(epochs=4, batch_tokens=64, learning_rate=0.02, warmup=2, held_out=3, validate_every=5)


class NextToken:
    """Learns which token follows which; its loss is a plain cross-entropy."""

    def __init__(self, learns: bool = True) -> None:
        torch.manual_seed(0)
        self.module = torch.nn.Sequential(torch.nn.Embedding(61, 16), torch.nn.Linear(16, 61))
        self.learns, self.written = learns, []

    def loss(self, batch: Batch) -> torch.Tensor:
        logits = self.module(batch.tokens[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.tokens[:, 1:].flatten())

    def measure(self, batch: Batch) -> torch.Tensor:
        kl = self.loss(batch).item() if self.learns else 1.0
        return torch.tensor([[kl, 0.5, 0.5, 1.0]], dtype=torch.float64)

    def write(self, folder: Path) -> None:
        self.written.append(folder)


def trainer(out: Path, recipe: Recipe = RECIPE, student: NextToken | None = None, **options) -> Trainer:
    return Trainer(student or NextToken(), random_examples(40), recipe, out, CPU, **options)


def weights(trained: Trainer) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in trained.student.module.parameters()])


def test_the_loss_falls_and_every_step_is_in_the_history(tmp_path):
    trained = trainer(tmp_path, decode=lambda: 1.5)
    outcome = trained.run()
    assert outcome.reason == "finished"
    lines = read_history(tmp_path / "training" / HISTORY)
    steps = [line for line in lines if "loss" in line]
    assert [line["step"] for line in steps] == list(range(1, outcome.progress.steps + 1))
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert all(line["tau"] == 1.5 for line in lines if "kl" in line)
    assert outcome.best.score <= min(line["kl"][0] for line in lines if "kl" in line)
    assert trained.student.written


def test_an_interrupted_training_comes_to_the_same_weights(tmp_path):
    whole = trainer(tmp_path / "whole")
    whole.run()

    def interrupt(progress):
        if progress.step == 7 and progress.last.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    cut = trainer(tmp_path / "cut", on_progress=interrupt)
    outcome = cut.run()
    assert (outcome.reason, outcome.progress.step) == ("interrupted", 7)
    assert not torch.equal(weights(cut), weights(whole))
    resumed = trainer(tmp_path / "cut")
    assert resumed.run().reason == "finished"
    assert torch.equal(weights(resumed), weights(whole))
    histories = [[{key: value for key, value in line.items() if key != "seconds"}
                  for line in read_history(tmp_path / name / "training" / HISTORY)] for name in ("whole", "cut")]
    assert histories[0] == histories[1]


def test_a_killed_training_goes_on_from_its_last_checkpoint(tmp_path):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.step == 8:
            raise Killed

    with pytest.raises(Killed):
        trainer(tmp_path / "cut", replace(RECIPE, checkpoint_seconds=0), on_progress=kill).run()
    whole, resumed = trainer(tmp_path / "whole"), trainer(tmp_path / "cut")
    whole.run()
    resumed.run()
    assert torch.equal(weights(resumed), weights(whole))


def test_it_stops_when_nothing_gets_better(tmp_path):
    outcome = trainer(tmp_path, replace(RECIPE, patience=2, epochs=20), NextToken(learns=False)).run()
    assert (outcome.reason, outcome.progress.step, outcome.best.step) == ("early stop", 10, 0)


def test_a_folder_with_another_training_is_refused(tmp_path):
    trainer(tmp_path).run()
    with pytest.raises(DistillError, match=r"learning_rate 0\.02 there, 0\.01 asked"):
        trainer(tmp_path, replace(RECIPE, learning_rate=0.01)).run()


def test_a_folder_with_a_training_on_another_corpus_is_refused(tmp_path):
    trainer(tmp_path, made_from={"corpus": "a"}).run()
    with pytest.raises(DistillError, match="corpus a there, b asked"):
        trainer(tmp_path, made_from={"corpus": "b"}).run()


def test_a_corpus_that_is_all_held_out_is_refused(tmp_path):
    with pytest.raises(DistillError, match="none is left"):
        trainer(tmp_path, replace(RECIPE, held_out=40))


def test_epochs_may_be_a_fraction(tmp_path):
    steps = [trainer(tmp_path, replace(RECIPE, epochs=epochs)).progress.steps for epochs in (0.5, 1, 1.5)]
    assert 0 < steps[0] < steps[1] < steps[2]


def test_the_rate_warms_up_and_falls_to_nothing():
    rates = [schedule(step, 100, 10) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * step for step in range(1, 11)])
    assert max(rates) == 1
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] < 0.01
