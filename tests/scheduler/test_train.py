"""Training finds a rule and keeps its sign, tells a mean from a median, and comes to the same weights again."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tests.scheduler.examples import CLOCK, LEAVES, rows, ruled, with_margin
from treegraft.scheduler import train as training
from treegraft.scheduler.dataset import DatasetError
from treegraft.scheduler.files import describe
from treegraft.scheduler.report import report
from treegraft.scheduler.train import EPOCHS, train


@pytest.fixture(scope="module")
def trained():
    return train(ruled(40, 100), name="rule", provenance={"pair": "tiny"})


def test_the_rule_is_learned_on_other_prompts(trained):
    found = report(trained[0], ruled(20, 100, seed=5))
    assert found.overall.share > 0.93
    assert found.regret.scheduler < 0.12 * min(found.regret.always, found.regret.never)


def test_a_call_that_saves_time_has_a_positive_margin():
    made = rows(10, 100)
    saves = made.features[:, LEAVES] > 0.5
    scheduler, _ = train(with_margin(made, np.where(saves, 12.0, -8.0)), name="sign")
    margins = scheduler.margins(made.features)
    assert margins[saves].mean() > 8
    assert margins[~saves].mean() < -4


def test_rare_large_savings_count_as_much_as_they_save():
    """Four calls of five lose 20 ms, the fifth saves 100: a call pays, though the usual one does not."""
    made = rows(20, 200)
    lucky = np.random.default_rng(0).uniform(size=len(made)) < 0.2
    scheduler, _ = train(with_margin(made, np.where(lucky, 100.0, -20.0)), name="skewed")
    assert scheduler.margins(made.features).mean() == pytest.approx(4, abs=2)


def test_it_is_reproducible(trained):
    again, epochs = train(ruled(40, 100), name="rule", provenance={"pair": "tiny"})
    assert describe(again).weights == describe(trained[0]).weights
    assert epochs == trained[1]
    other, _ = train(ruled(40, 100), name="rule", seed=1)
    assert describe(other).weights != describe(again).weights


def test_the_random_numbers_of_others_stay_as_they_are():
    torch.manual_seed(3)
    expected = torch.rand(2).tolist()
    torch.manual_seed(3)
    train(ruled(3, 5), name="rule")
    assert torch.rand(2).tolist() == expected


def test_no_prompt_is_on_both_sides(monkeypatch):
    """The first feature names the prompt here; the network is handed the two sides apart."""
    sides = []

    def look(train_rows, held_out, *rest):
        sides.extend(set(side[0][:, 0].tolist()) for side in (train_rows, held_out))
        return fit(train_rows, held_out, *rest)

    fit = training.fit
    monkeypatch.setattr(training, "fit", look)
    made = ruled(20, 10)
    made.features[:, 0] = made.prompt
    train(made, name="sides")
    assert len(sides[0]) == 17
    assert len(sides[1]) == 3
    assert not sides[0] & sides[1]


def test_it_keeps_the_best_epoch_and_stops_when_nothing_gets_better():
    made = with_margin(rows(20, 50), np.random.default_rng(0).normal(size=1000))
    seen = []
    scheduler, epochs = train(made, name="noise", on_epoch=seen.append)
    assert seen == epochs
    assert len(epochs) < EPOCHS
    best = min(epochs, key=lambda epoch: epoch.validation)
    assert best.number < len(epochs)
    held = made.of_prompts(np.array(scheduler.provenance["validation_prompts"]))
    loss = np.mean((scheduler.margins(held.features) - held.margin) ** 2) / scheduler.margin_std**2
    assert loss == pytest.approx(best.validation, rel=1e-4)
    assert scheduler.provenance["best_epoch"] == best.number


def test_the_loss_falls(trained):
    epochs = trained[1]
    assert epochs[-1].training < 0.25 < epochs[0].training
    assert min(epoch.validation for epoch in epochs) < 0.25


def test_what_never_varied_does_not_count(trained):
    """The clock was the same in all rows; measured anew, it must not change decisions at random."""
    scheduler = trained[0]
    seen = ruled(2, 10).features
    other = seen.copy()
    other[:, CLOCK] = (90.0, 5.0, np.log(18))
    assert np.array_equal(scheduler.margins(other), scheduler.margins(seen))
    assert scheduler.std[CLOCK].tolist() == [1, 1, 1]
    assert scheduler.provenance["constant_features"] == ["target_ms", "strong_ms", "cost_ratio"]


def test_the_provenance_is_kept_and_can_be_written(trained):
    facts = json.loads(json.dumps(describe(trained[0]).description))["provenance"]
    assert facts["pair"] == "tiny"
    assert (facts["rows"], facts["validation_rows"], facts["prompts"]) == (3400, 600, 34)
    assert (facts["impossible"], facts["seed"]) == (4, 0)


def test_data_sets_that_teach_nothing():
    with pytest.raises(DatasetError, match="nothing to learn"):
        train(rows(4, 5), name="same")
    with pytest.raises(DatasetError, match="prompts must be held out"):
        train(ruled(1, 5), name="one")
