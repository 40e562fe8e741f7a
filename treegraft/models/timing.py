"""Timing of model forwards without stalling the device: events on a GPU, a clock on the CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from treegraft.trace.records import Forward


class Stopwatch:
    """Times the forwards of one model. On a GPU the times are read once a round, when the device has passed them."""

    def __init__(self, device: torch.device) -> None:
        self._event = {"cuda": torch.cuda.Event, "mps": torch.mps.Event}.get(device.type)
        self._laps: list[tuple[int, object, object]] = []

    @contextmanager
    def lap(self, tokens: int) -> Iterator[None]:
        """Time one forward over `tokens` tokens."""
        start = self._now()
        yield
        self._laps.append((tokens, start, self._now()))

    def _now(self):
        if self._event is None:
            return time.perf_counter()
        event = self._event(enable_timing=True)
        event.record()
        return event

    def read(self, model: int) -> list[Forward]:
        """The laps since the last reading, as forwards of `model` (a drafter id or TARGET)."""
        laps, self._laps = self._laps, []
        if self._event is None:
            return [Forward(model=model, tokens=n, microseconds=round((end - start) * 1e6)) for n, start, end in laps]
        if laps:
            laps[-1][2].synchronize()
        return [Forward(model=model, tokens=n, microseconds=round(start.elapsed_time(end) * 1e3))
                for n, start, end in laps]
