"""What forwards cost, from the curves that a run measured."""

from __future__ import annotations

import numpy as np

from treegraft.trace.records import CostCurve


def microseconds(curve: CostCurve, tokens: int) -> int:
    """The time of one forward over `tokens` tokens: straight lines through the measured points and beyond, where more
    tokens never take less."""
    sizes, times = np.array(curve.points, float).T
    if tokens > sizes[-1] and len(sizes) > 1:
        slope = max(0.0, (times[-1] - times[-2]) / (sizes[-1] - sizes[-2]))
        return round(times[-1] + slope * (tokens - sizes[-1]))
    return round(float(np.interp(tokens, sizes, times)))
