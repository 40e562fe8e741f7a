"""Training of the scheduler: regression of the milliseconds that a call saves on what was seen before it.

The loss is the mean squared error of the z-scored label, untrimmed. That is a choice: a call costs about the same every
time and now and then saves a lot, so labels are skewed, and only the mean of a skewed label tells whether a call pays.
Losses that give outliers less weight (absolute, Huber, clipped labels) learn something nearer to the median, and call
too seldom.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn

from treegraft.scheduler.dataset import Dataset, DatasetError
from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.network import WIDTHS, Scheduler

VALIDATION = 0.15
"""Share of the prompts that early stopping looks at."""
EPOCHS, PATIENCE = 60, 12
BATCH = 1024
LEARNING_RATE, WEIGHT_DECAY = 2e-3, 0.1
"""The rate is the first one; it falls to 0 along a cosine."""


@dataclass(frozen=True)
class Epoch:
    """One pass over the rows: losses in units of the label's variance on the rows trained on, where 1 is what the
    mean label alone reaches; `validation` is that of prompts not trained on."""

    number: int
    training: float
    validation: float


@dataclass(frozen=True)
class Scaling:
    """Means and standard deviations of features [17] and label; `varied` [17] tells features that were not constant."""

    mean: np.ndarray
    std: np.ndarray
    varied: np.ndarray
    margin_mean: float
    margin_std: float

    @classmethod
    def of(cls, rows: Dataset) -> Scaling:
        varied = np.ptp(rows.features, axis=0) > 0
        return cls(rows.features.mean(0), np.where(varied, rows.features.std(0), 1.0), varied,
                   float(rows.margin.mean()), float(rows.margin.std()))

    def tensors(self, rows: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
        """Scaled features [n, 17] and labels [n, 1]."""
        features = np.where(self.varied, (rows.features - self.mean) / self.std, 0)
        margin = (rows.margin - self.margin_mean) / self.margin_std
        return torch.from_numpy(features).float(), torch.from_numpy(margin).float()[:, None]


def train(dataset: Dataset, *, name: str, seed: int = 0, provenance: Mapping[str, Any] = MappingProxyType({}),
          on_epoch: Callable[[Epoch], None] = lambda epoch: None) -> tuple[Scheduler, list[Epoch]]:
    """Train a scheduler on all prompts but a few, which say when to stop; returns the best one and the epochs.

    The same data set and seed give the same scheduler on the same machine and number of threads. Facts of the training
    are added to `provenance`. Errors: `DatasetError` for rows of fewer than two prompts, and labels that are all the
    same.
    """
    rows, held_out = dataset.split(VALIDATION, seed)
    scaling = Scaling.of(rows)
    if scaling.margin_std == 0:
        raise DatasetError("Every decision of the data set has the same margin: there is nothing to learn. Run "
                           "`treegraft values` on other prompts.")
    network, epochs = fit(scaling.tensors(rows), scaling.tensors(held_out), seed, on_epoch)
    best = min(epochs, key=lambda epoch: epoch.validation)
    facts = {"rows": len(rows), "prompts": len(np.unique(rows.prompt)), "validation_rows": len(held_out),
             "validation_prompts": np.unique(held_out.prompt).tolist(), "impossible": dataset.impossible, "seed": seed,
             "epochs": len(epochs), "best_epoch": best.number, "validation_loss": best.validation,
             "constant_features": [name for name, varied in zip(FEATURES, scaling.varied, strict=True) if not varied]}
    return to_scheduler(network, scaling, name, {**provenance, **facts}), epochs


def fit(rows: tuple[torch.Tensor, torch.Tensor], held_out: tuple[torch.Tensor, torch.Tensor], seed: int,
        on_epoch: Callable[[Epoch], None]) -> tuple[nn.Sequential, list[Epoch]]:
    """The network with the least error on `held_out`, and all epochs."""
    features, margins = rows
    shuffle = torch.Generator().manual_seed(seed)
    network = make_network(seed)
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    batches = -(-len(features) // BATCH)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * batches)
    epochs, best, least, last_gain = [], network, float("inf"), 0
    for number in range(1, EPOCHS + 1):
        total = 0.0
        for batch in torch.randperm(len(features), generator=shuffle).split(BATCH):
            loss = nn.functional.mse_loss(network(features[batch]), margins[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rate.step()
            total += loss.item() * len(batch)
        epochs.append(Epoch(number, total / len(features), error(network, *held_out)))
        on_epoch(epochs[-1])
        if epochs[-1].validation < least:
            best, least, last_gain = copy.deepcopy(network), epochs[-1].validation, number
        elif number - last_gain >= PATIENCE:
            break
    return best, epochs


def make_network(seed: int) -> nn.Sequential:
    """The network before training; torch's own random state stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [layer for inputs, outputs in pairwise(WIDTHS)
                  for layer in (nn.Linear(inputs, outputs), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


@torch.no_grad()
def error(network: nn.Sequential, features: torch.Tensor, margins: torch.Tensor) -> float:
    return nn.functional.mse_loss(network(features), margins).item()


def to_scheduler(network: nn.Sequential, scaling: Scaling, name: str, provenance: Mapping[str, Any]) -> Scheduler:
    """The trained network in NumPy.

    A feature that never varied has taught nothing, and its weights are still random: they become 0, lest the margin
    change at random where the feature differs (a clock that was measured anew).
    """
    linears = [layer for layer in network if isinstance(layer, nn.Linear)]
    weights = [layer.weight.detach().double().numpy() for layer in linears]
    weights[0] = weights[0] * scaling.varied
    return Scheduler(name=name, mean=scaling.mean, std=scaling.std, margin_mean=scaling.margin_mean,
                     margin_std=scaling.margin_std, weights=tuple(weights),
                     biases=tuple(layer.bias.detach().double().numpy() for layer in linears), provenance=provenance)
