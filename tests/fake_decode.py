"""A decode for tests of what watches one: random rounds instead of models, each let through by the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random

import pytest

from tests.strategies import make_run
from treegraft import live
from treegraft.recorder import PROBING_STOPPED
from treegraft.trace import Run
from treegraft.trace.records import End

PATIENCE = 30
"""Seconds that a test waits for another thread on a busy machine."""


class FakeDecode:
    """Stands in for `live.load_pair` and `live.decode`. The decode waits until `let` was called for a round; an
    error in `load_error` or `error` is raised by loading, or after the rounds that were let through."""

    def __init__(self, rounds: int = 4, free: bool = False) -> None:
        self.source = make_run(Random(3), [(2, 3)] * rounds)
        self.plain_source = self.source
        self.free = free
        self.allowed = threading.Semaphore(0)
        self.load_error: Exception | None = None
        self.error: Exception | None = None
        self.at_load: Callable[[], None] = lambda: None
        self.loaded: list[live.Request] = []
        self.decoded: list[live.Request] = []
        self.probes = 3
        self.plain_seconds = 5

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeDecode:
        monkeypatch.setattr(live, "load_pair", self.load_pair)
        monkeypatch.setattr(live, "decode", self.decode)
        return self

    def let(self, rounds: int = 1) -> None:
        """Let this many more rounds through."""
        self.allowed.release(rounds)

    def load_pair(self, request: live.Request, progress) -> None:
        self.loaded.append(request)
        progress("loading the target", 0.5)
        self.at_load()
        progress("loading the drafter", None)
        if self.load_error:
            raise self.load_error

    def decode(self, pair: None, request: live.Request, writer, on_round, on_probe=None, baseline=None) -> Run:
        self.decoded.append(request)
        source = self.plain_source if request.policy.name == "plain" else self.source
        header = source.header
        header.turn, header.group = request.turn, live.CONVERSATION if request.earlier else ""
        run = Run(header, source.pieces, source.prefill, [], None)
        write = writer.write if writer else lambda record: None
        write(header)
        if writer:
            writer.pieces(source.pieces)
        write(source.prefill)
        reason, probed = "eos", 0
        try:
            for record in source.records:
                self.wait()
                write(record)
                run.records.append(record)
                on_round(run.rounds[-1])
            for place in range(self.probes if request.level != "run" else 0):
                self.wait()
                probed = place + 1
                on_probe(probed, self.probes)
        except KeyboardInterrupt:
            reason = "eos" if probed else "interrupted"
        seconds = self.plain_seconds if request.policy.name == "plain" else 2
        run.end = End(reason=reason, new_tokens=len(run.output), microseconds=seconds * 1_000_000,
                      baseline=baseline)
        if 0 < probed < self.probes:
            run.end.notes = [f"{PROBING_STOPPED} at position {probed} of {self.probes}, so what-ifs will lack the rest"]
        write(run.end)
        return run

    def wait(self) -> None:
        if not self.free:
            assert self.allowed.acquire(timeout=PATIENCE)
        if self.error:
            raise self.error


def wait_until(true: Callable[[], object]) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)
