"""What a forward costs: measured curves of time against tokens, for estimates that need a clock."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from treegraft.drafters.base import Drafter
from treegraft.models.cache import CachedModel
from treegraft.models.target import Target
from treegraft.models.timing import Stopwatch
from treegraft.trace.records import TARGET, CostCurve

SIZES = (1, 8, 16, 32, 64)
CONTEXT = 256
REPEATS = 3


def measure_costs(target: Target, drafters: Sequence[Drafter]) -> list[CostCurve]:
    """Median time of a forward over 1 to 64 tokens behind a context of 256, for the target and each neural drafter.

    Uses the caches, so it must not run inside a decode.
    """
    models = {TARGET: target.cached} | {d.id: d.open(CONTEXT + SIZES[-1]) for d in drafters if hasattr(d, "open")}
    return [CostCurve(model=model, context=CONTEXT, points=cost_points(cached)) for model, cached in models.items()]


def cost_points(cached: CachedModel, context: int = CONTEXT) -> list[tuple[int, int]]:
    """[tokens, median microseconds] of forwards of one model behind `context` cached tokens."""
    context = min(context, cached.max_rows - SIZES[-1])
    cached.reset()
    for _ in cached.append(np.arange(context, dtype=np.int64)):
        pass
    stopwatch = Stopwatch(cached.device)
    points = []
    for size in SIZES:
        for _ in range(1 + REPEATS):
            with stopwatch.lap(size):
                for logits in cached.append(np.arange(size, dtype=np.int64), logits=0):
                    logits.argmax(-1)
            cached.keep(context, np.zeros(0, np.int64))
        times = [lap.microseconds for lap in stopwatch.read(TARGET)[1:]]
        points.append((size, round(statistics.median(times))))
    return points
