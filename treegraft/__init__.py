"""treegraft: a flight recorder, microscope and classroom for tree-based speculative decoding.

    import treegraft as tg

    pair = tg.load("smollm2")
    run = tg.record(pair, "Why is the sky blue?", policy=tg.Eagle2(budget=32))
    run.text, run.trace.rounds[3].tree
    run.trace.show(3)

Opening and reading traces (`tg.open`) needs neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treegraft import trace
    from treegraft.compare.report import read_comparison
    from treegraft.compare.run import compare_policies
    from treegraft.compare.table import Comparison
    from treegraft.models import Pair, load
    from treegraft.policies import *  # noqa: F403
    from treegraft.run import Recording, record
    from treegraft.trace import Run, Trace, TraceError, open

HOMES = {
    "load": "treegraft.models", "Pair": "treegraft.models", "record": "treegraft.run", "Recording": "treegraft.run",
    "open": "treegraft.trace", "Run": "treegraft.trace", "Trace": "treegraft.trace", "TraceError": "treegraft.trace",
    "compare_policies": "treegraft.compare.run", "read_comparison": "treegraft.compare.report",
    "Comparison": "treegraft.compare.table",
}
"""Where each public name lives: imported when it is first used, so that reading a trace does not load torch. All
policies are public names, too."""

__all__ = ["Comparison", "Pair", "Recording", "Run", "Trace", "TraceError", "compare_policies", "load", "open",
           "read_comparison", "record", "trace"]


def __getattr__(name: str):
    if name == "trace":
        return import_module("treegraft.trace")
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    policies = import_module("treegraft.policies")
    if name in policies.__all__:
        return getattr(policies, name)
    raise AttributeError(f"module 'treegraft' has no attribute {name!r}")
