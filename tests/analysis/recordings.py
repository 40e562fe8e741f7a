"""Runs of tiny models, recorded at any level."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np

from tests import tiny, tiny_heads
from treegraft.drafters.base import Drafter
from treegraft.drafters.lm import LM
from treegraft.drafters.lookup import Lookup
from treegraft.models.cache import CachedModel
from treegraft.models.target import Target
from treegraft.policies.base import Constants, Policy
from treegraft.recorder import Recorder
from treegraft.run import run_to_end
from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.files import describe
from treegraft.scheduler.network import WIDTHS, Scheduler
from treegraft.trace import records
from treegraft.trace.records import TARGET, Clock, CostCurve
from treegraft.trace.writer import Writer

FAMILY = "llama"
NAMES = (("lookup", "strong"), ("lookup", "eagle3"), ("eagle3", "strong"))
PROMPTS = ((3, 4, 5, 3, 4, 9, 3, 4), (9, 8, 7, 6, 9, 8, 7, 6, 9, 8, 7) * 2, tuple(range(3, 30)), (5, 6, 7) * 4)
MAX_CONTEXT = 256
CLOCK = Clock(target=9000, strong=3000, call_budget=5)
CURVES = {TARGET: [(1, 5000), (8, 6000), (64, 12_000)], "lm": [(1, 2000), (64, 7000)], "eagle3": [(1, 700), (64, 1500)]}


@functools.cache
def target() -> Target:
    return Target(CachedModel(tiny.target(FAMILY), 10_000))


def drafter_of(name: str, **lookup) -> Drafter:
    if name == "lookup":
        return Lookup(**lookup)
    if name == "strong":
        return LM(model=tiny.drafter(FAMILY), title="strong")
    return tiny_heads.drafter_of(tiny_heads.taught_head(FAMILY, *PROMPTS[:3]), FAMILY, title="eagle3")


def made_scheduler(seed: int = 1) -> Scheduler:
    """A scheduler with random weights whose margins lie around 0 at every layer."""
    random = np.random.default_rng(seed)
    layers = list(zip(WIDTHS[1:], WIDTHS, strict=False))
    return Scheduler(
        name="random", mean=np.zeros(len(FEATURES)), margin_mean=0.0, margin_std=1.0,
        std=np.array([1000.0 if feature.endswith("_ms") else 3.0 for feature in FEATURES]),
        weights=tuple(random.normal(size=shape) / shape[1] ** 0.5 for shape in layers),
        biases=tuple(np.zeros(shape[0]) for shape in layers))


def recorded(names, prompt, policy: Policy, *, level: str = "run", scheduler: Scheduler | None = None,
             clock: Clock = CLOCK, new_tokens: int = 30, lookup: dict | None = None, writer: Writer | None = None):
    """A run as `treegraft.record` makes one; an object with `run`."""
    drafters = [drafter_of(name, **(lookup or {}) if name == "lookup" else {}) for name in names]
    return recorded_with(drafters, prompt, policy, level=level, scheduler=scheduler, clock=clock,
                         new_tokens=new_tokens, writer=writer)


def recorded_with(drafters, prompt, policy: Policy, *, level: str = "run", scheduler: Scheduler | None = None,
                  clock: Clock = CLOCK, new_tokens: int = 30, writer: Writer | None = None):
    """The same with drafters of one's own, in the order of the policy's roles."""
    for number, drafter in enumerate(drafters):
        drafter.id = number
    header = records.Header(
        created="2026-01-31", target=records.TargetInfo(name="tiny", vocab_size=tiny.VOCAB),
        drafters=[records.DrafterInfo(id=one.id, kind=one.name, name=one.label, state=one.state,
                                      context_limit=one.context_limit, settings=one.settings) for one in drafters],
        policy=records.PolicyInfo(name=policy.name, settings=policy.settings, drafters=[one.id for one in drafters]),
        prompt=records.Prompt(tokens=list(prompt)), level=level, clock=clock,
        decoding=records.Decoding(max_new_tokens=new_tokens, max_context=MAX_CONTEXT),
        scheduler=describe(scheduler) if scheduler else None,
        costs=[CostCurve(model=TARGET, context=64, points=CURVES[TARGET]),
               *(CostCurve(model=one.id, context=64, points=CURVES[one.name]) for one in drafters
                 if one.name in CURVES)])
    recorder = Recorder(header, lambda ids: dict.fromkeys(ids, b"x"), writer)
    run_to_end(recorder, target(), policy, drafters, Constants(len(prompt), clock, scheduler, header.costs), None)
    return SimpleNamespace(run=recorder.run)
