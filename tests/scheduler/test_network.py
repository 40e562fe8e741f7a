"""The network computes what torch's layers compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from tests.scheduler.examples import random_scheduler
from treegraft.scheduler.features import FEATURES


def test_the_network_has_the_published_number_of_parameters():
    scheduler = random_scheduler()
    assert sum(array.size for array in (*scheduler.weights, *scheduler.biases)) == 3265


def test_margins_are_those_of_torch():
    scheduler = random_scheduler()
    seen = np.random.default_rng(1).normal(size=(20, len(FEATURES)))
    hidden = torch.from_numpy((seen - scheduler.mean) / scheduler.std)
    for layer, (weight, bias) in enumerate(zip(scheduler.weights, scheduler.biases, strict=True)):
        hidden = torch.nn.functional.linear(hidden if layer == 0 else hidden.relu(), torch.from_numpy(weight),
                                            torch.from_numpy(bias))
    expected = hidden[:, 0].numpy() * scheduler.margin_std + scheduler.margin_mean
    np.testing.assert_allclose(scheduler.margins(seen), expected)
    np.testing.assert_allclose([scheduler.margin(row) for row in seen], expected)


def test_a_feature_without_spread_does_not_divide_by_zero():
    scheduler = replace(random_scheduler(), std=np.zeros(17))
    assert scheduler.margin(scheduler.mean) == random_scheduler().margin(scheduler.mean)
