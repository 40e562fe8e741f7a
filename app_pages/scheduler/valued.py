"""The values of a run, worked out once for all sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import streamlit as st

from app_pages.shared.recording import Opened
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.regret import Verdict, verdict
from treegraft.analysis.text import visible
from treegraft.analysis.thresholds import Sweep, sweep
from treegraft.analysis.whatif import WhatIf, policy_of
from treegraft.policies import TreeGraft
from treegraft.scheduler.values import Values
from treegraft.trace import Run

MOST_LAYERS = 7
"""Layers of a round whose choices are all tried; each one more doubles them."""


@dataclass(frozen=True)
class Valued:
    """The values of a run, or the `problem` why there are none. `lock` guards them: a replay moves its drafters."""

    values: Values | None
    problem: str = ""
    lock: Lock = field(default_factory=Lock, repr=False)


def valued(opened: Opened) -> Valued:
    return values_of(opened.run, opened.key)


@st.cache_resource(max_entries=3, show_spinner="Working out what every decision is worth …")
def values_of(_run: Run, key: str) -> Valued:
    if _run.header.level != "exhaustive":
        return Valued(None, f"This run was recorded at the level {_run.header.level}. What a decision is worth needs "
                            "the level exhaustive, which asks the drafters at every output position.")
    try:
        policy = policy_of(_run)
        if isinstance(policy, TreeGraft) and policy.layers > MOST_LAYERS:
            return Valued(None, f"This run has {policy.layers} layers a round, so {2**policy.layers - 1} decision "
                                f"states a position; this page tries up to {MOST_LAYERS} layers.")
        return Valued(Values(WhatIf(_run)))
    except NotRecorded as error:
        return Valued(None, f"What a decision is worth is not known here: {visible(str(error))}.")


@st.cache_resource(max_entries=8, show_spinner="Comparing with the oracle …")
def verdict_of(_valued: Valued, key: str) -> Verdict | None:
    with _valued.lock:
        return verdict(_valued.values)


@st.cache_resource(max_entries=8, show_spinner="Replaying the run at other thresholds …")
def sweep_of(_run: Run, _valued: Valued, key: str) -> Sweep | str:
    """The sweep, or why there is none."""
    try:
        with _valued.lock:
            return sweep(_valued.values.whatif if _valued.values else WhatIf(_run), _valued.values)
    except NotRecorded as error:
        return f"Other thresholds cannot be replayed here: {visible(str(error))}."
