"""How well a scheduler decides on prompts that it was not trained on, against the one who knows the outcome."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.scheduler.dataset import Dataset, DatasetError
from treegraft.scheduler.network import Scheduler

BINS = 10
"""Groups of equally many decisions, by predicted margin, whose actual margins are compared."""


@dataclass(frozen=True)
class Decisions:
    """Decisions of one layer, or of all (`layer` None), beside the oracle's, which calls where that saves time.

    `agreement` is the share of decisions that are the oracle's (either one is, where the label is 0). `share` is the
    same with every decision weighted by its label's size: the share of the milliseconds at stake that the decisions
    get; None where nothing is at stake. `calls` and `oracle_calls` are the shares of decisions that are calls.
    """

    layer: int | None
    states: int
    agreement: float
    share: float | None
    calls: float
    oracle_calls: float


@dataclass(frozen=True)
class Regret:
    """Milliseconds that a decision loses against the oracle's, on average over all states: 0 is best.

    Each state counts once, whether or not the scheduler's own decisions lead there, and later decisions are the best
    ones; so this is not the time that a run loses.
    """

    scheduler: float
    always: float
    never: float

    def share(self, lost: float) -> float | None:
        """The share of the milliseconds at stake that is got by losing `lost` of them a decision."""
        at_stake = self.always + self.never  # what the one loses, the other gets
        return 1 - lost / at_stake if at_stake else None


@dataclass(frozen=True)
class Bin:
    """Decisions with like margins: how many, and the means of the predicted and the actual margin in milliseconds."""

    states: int
    predicted: float
    actual: float


@dataclass(frozen=True)
class Report:
    """A scheduler's decisions at `threshold` milliseconds on `prompts` held-out prompts."""

    name: str
    threshold: float
    prompts: int
    overall: Decisions
    layers: tuple[Decisions, ...]
    regret: Regret
    calibration: tuple[Bin, ...]


def report(scheduler: Scheduler, held_out: Dataset, threshold: float = 0.0) -> Report:
    """Compare a scheduler with the labels of prompts that it was not trained on.

    Errors: `DatasetError` for a data set without rows.
    """
    if len(held_out) == 0:
        raise DatasetError("The held-out prompts have no decisions to compare. Hold out more prompts.")
    actual, predicted = held_out.margin, scheduler.margins(held_out.features)
    calls = predicted > threshold
    lost = np.where(calls, np.maximum(-actual, 0), np.maximum(actual, 0))
    layers = tuple(compare(calls[rows], actual[rows], lost[rows], int(layer)) for layer in np.unique(held_out.depth)
                   for rows in [held_out.depth == layer])
    return Report(
        name=scheduler.name, threshold=threshold, prompts=len(np.unique(held_out.prompt)),
        overall=compare(calls, actual, lost, None), layers=layers,
        regret=Regret(float(lost.mean()), float(np.maximum(-actual, 0).mean()), float(np.maximum(actual, 0).mean())),
        calibration=calibrate(predicted, actual))


def compare(calls: np.ndarray, actual: np.ndarray, lost: np.ndarray, layer: int | None) -> Decisions:
    """Decisions [n] beside the actual margins and the milliseconds lost."""
    at_stake = np.abs(actual).sum()
    return Decisions(layer=layer, states=len(calls), agreement=float(np.mean(lost == 0)),
                     share=float(1 - lost.sum() / at_stake) if at_stake else None, calls=float(calls.mean()),
                     oracle_calls=float(np.mean(actual > 0)))


def calibrate(predicted: np.ndarray, actual: np.ndarray) -> tuple[Bin, ...]:
    """Bins of equally many states, from the least predicted margin to the largest."""
    order = np.argsort(predicted, kind="stable")
    return tuple(Bin(len(rows), float(predicted[rows].mean()), float(actual[rows].mean()))
                 for rows in np.array_split(order, BINS) if len(rows))
