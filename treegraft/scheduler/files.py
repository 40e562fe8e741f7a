"""Schedulers as files: `scheduler.safetensors` holds the numbers, `scheduler.json` says what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as pack_tensors

from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.network import WIDTHS, Scheduler
from treegraft.trace.records import SchedulerInfo

BUNDLED = Path(__file__).parents[2] / "assets" / "schedulers"
TENSORS, DESCRIPTION = "scheduler.safetensors", "scheduler.json"
LARGEST = 1 << 20
"""Bytes of a file of either kind; the network takes 26 kB."""

LAYERS = range(1, len(WIDTHS))


class SchedulerError(ValueError):
    """A scheduler that cannot be used; the text says why and what to do."""


def bundled(target: str, weak: str, strong: str) -> Path | None:
    """The folder of the scheduler that comes with a pair, None where there is none."""
    folder = BUNDLED / f"{target}-{weak}-{strong}"
    return folder if "/" not in f"{target}{weak}{strong}" and folder.is_dir() else None


def save(scheduler: Scheduler, folder: Path) -> None:
    """Write a scheduler into `folder`, which is made. Errors: `SchedulerError`."""
    info = describe(scheduler)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in ((TENSORS, info.weights), (DESCRIPTION, json.dumps(info.description, indent=2).encode())):
            part = folder / f".{name}.part"
            part.write_bytes(content)
            part.replace(folder / name)
    except OSError as error:
        raise SchedulerError(f"The scheduler could not be written into {folder}: {error.strerror}. Give a folder that "
                             "can be written.") from None


def load(folder: str | Path) -> Scheduler:
    """The scheduler in `folder`. Errors: `SchedulerError`."""
    folder = Path(folder)
    content = []
    for name in (DESCRIPTION, TENSORS):
        path = folder / name
        try:
            if path.stat().st_size > LARGEST:
                raise SchedulerError(f"{path} has {path.stat().st_size} bytes; a scheduler takes at most {LARGEST}.")
            content.append(path.read_bytes())
        except OSError as error:
            raise SchedulerError(f"There is no scheduler in {folder}: {path.name} cannot be read ({error.strerror}). "
                                 "Give the folder that `treegraft distill-scheduler` wrote.") from None
    try:
        description = json.loads(content[0])
    except (ValueError, RecursionError) as error:
        raise SchedulerError(f"{folder / DESCRIPTION} is not JSON: {error}.") from None
    return restore(SchedulerInfo(name=folder.name, description=description, weights=content[1]))


def describe(scheduler: Scheduler) -> SchedulerInfo:
    """The scheduler as a trace's header and its two files hold it."""
    tensors = {"mean": scheduler.mean, "std": scheduler.std,
               "margin": np.array([scheduler.margin_mean, scheduler.margin_std])}
    for layer, weight, bias in zip(LAYERS, scheduler.weights, scheduler.biases, strict=True):
        tensors |= {f"weight_{layer}": weight, f"bias_{layer}": bias}
    description = {"name": scheduler.name, "features": list(FEATURES), "mean": scheduler.mean.tolist(),
                   "std": scheduler.std.tolist(), "margin": {"unit": "milliseconds that a call saves",
                                                             "mean": scheduler.margin_mean,
                                                             "std": scheduler.margin_std},
                   "provenance": dict(scheduler.provenance)}
    weights = pack_tensors({name: np.ascontiguousarray(tensor, np.float64) for name, tensor in tensors.items()})
    return SchedulerInfo(name=scheduler.name, description=description, weights=weights)


def restore(info: SchedulerInfo) -> Scheduler:
    """The scheduler that `describe` described. Errors: `SchedulerError` for one of another shape or other features."""
    if not isinstance(info.description, Mapping) or info.description.get("features") != list(FEATURES):
        raise SchedulerError(f"The scheduler {info.name} was made for other features than this version of treegraft "
                             "has. Train it again with `treegraft distill-scheduler`.")
    try:
        tensors = read_tensors(info.weights)
    except (SafetensorError, ValueError, KeyError) as error:  # KeyError: a type of number that NumPy does not have
        raise SchedulerError(f"The numbers of the scheduler {info.name} are no safetensors file that NumPy can read: "
                             f"{error}. Train it again with `treegraft distill-scheduler`.") from None
    for name, shape in shapes().items():
        tensor = tensors.get(name, np.zeros(0))
        if tensor.shape != shape or tensor.dtype.kind != "f" or not np.isfinite(tensor).all():
            raise SchedulerError(f"The scheduler {info.name} needs {name} as finite decimal numbers of shape "
                                 f"{list(shape)}. Train it again with `treegraft distill-scheduler`.")
    margin = tensors["margin"]
    if min(margin[1], tensors["std"].min()) < 0:
        raise SchedulerError(f"The scheduler {info.name} has a negative standard deviation. Train it again with "
                             "`treegraft distill-scheduler`.")
    return Scheduler(
        name=str(info.description.get("name", info.name)), mean=tensors["mean"], std=tensors["std"],
        margin_mean=float(margin[0]), margin_std=float(margin[1]), provenance=provenance_of(info.description),
        weights=tuple(tensors[f"weight_{layer}"] for layer in LAYERS),
        biases=tuple(tensors[f"bias_{layer}"] for layer in LAYERS))


def provenance_of(description: Mapping[str, Any]) -> Mapping[str, Any]:
    found = description.get("provenance")
    return found if isinstance(found, Mapping) else {}


def shapes() -> dict[str, tuple[int, ...]]:
    """The shape of every tensor in the file."""
    found: dict[str, tuple[int, ...]] = {"mean": (WIDTHS[0],), "std": (WIDTHS[0],), "margin": (2,)}
    for layer in LAYERS:
        found |= {f"weight_{layer}": (WIDTHS[layer], WIDTHS[layer - 1]), f"bias_{layer}": (WIDTHS[layer],)}
    return found
