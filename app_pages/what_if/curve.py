"""The whole range of one setting, the others as they are set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app_pages.shared.charts import chart, origin_badge
from app_pages.shared.look import theme
from app_pages.shared.recording import Opened
from app_pages.what_if.controls import limits, step_of
from app_pages.what_if.replays import Replays
from treegraft.analysis.cost_profile import CostProfile
from treegraft.analysis.sweep import halve
from treegraft.analysis.whatif import Replay
from treegraft.analysis.whatif_numbers import tokens_per_second
from treegraft.settings import Setting, settings_of
from treegraft.trace.records import Decide
from treegraft.view.whatif_charts import Point, before_knee, curve, known, near_best, reading

STEPS = 13
UNITS = {"tau": "tau", "tokens_per_second": "tokens/s"}
"""Of what is drawn."""


def show_curve(opened: Opened, found: Replays, changed: Mapping[str, Any], profile: CostProfile) -> None:
    policy = found.whatif.policy
    items = {item.name: item for item in settings_of(type(policy)) if item.type in (int, float)}
    if not items:
        st.text("This policy has no setting with a range.")
        return
    name = st.selectbox("The range of", list(items), key="what if curve", persist_state="session", width=240)
    now = changed.get(name, getattr(policy, name))
    with st.spinner("Replaying the range …"):
        points, unknown = points_of(opened, found, items[name], {**changed}, now, profile)
    if not points:
        st.text(f"None of the {unknown} values of {name} tried can be replayed with the other settings as they are.")
        return
    rows = pd.DataFrame([{name: point.value, "tau": point.tau, "tokens/s (estimated)": point.tokens_per_second}
                         for point in points])
    for column, (of, unit) in zip(st.columns(2), UNITS.items(), strict=True):
        with column:
            origin_badge(found.whatif.counted if of == "tau" else "estimated")
            told = reading(points, of, name, unit)
            if len(known(points, of)) > 1:
                chart(curve(points, of, name, now, unit, theme()), key=f"what if {of}", reading=told, table=rows)
            else:
                st.text(told)
    if unknown:
        st.caption(f"{unknown} of {unknown + len(points)} values cannot be replayed: the recording lacks what the "
                   "drafters would have said.")


def points_of(opened: Opened, found: Replays, item: Setting, changed: dict[str, Any], now: float,
              profile: CostProfile) -> tuple[list[Point], int]:
    """The replays over a range and in the gaps before its knees, and how many values cannot be replayed."""
    recorded = getattr(found.whatif.policy, item.name)
    tried: dict[float, Point | None] = {}

    def replayed(value: float) -> Point | None:
        settings = {**changed, item.name: value}
        if value == recorded:
            del settings[item.name]
        replay = found.under(settings)
        tried[value] = Point(value, replay.tau, tokens_per_second(found.whatif, replay, profile)) if isinstance(
            replay, Replay) else None
        return tried[value]

    for value in values(opened, item, recorded, now):
        replayed(value)
    for of in UNITS:
        look_before_knee(replayed, known(tried.values(), of), of, item, recorded)
    points = [tried[value] for value in sorted(tried) if tried[value]]
    return points, len(tried) - len(points)


def look_before_knee(replayed: Callable[[float], Point | None], points: Sequence[Point], of: str, item: Setting,
                     recorded: float) -> None:
    """Replay values in the gap before the knee, so that the one that is told is not just the first of coarse steps."""
    gap = before_knee(points, of)
    if gap is None:
        return
    enough = near_best(points, of)

    def reaches(value: float) -> bool:
        point = replayed(value)
        return point is not None and (getattr(point, of) or 0) >= enough

    halve(*gap, item.type, 1 if item.type is int else step_of(*limits(item, recorded)), reaches)


def values(opened: Opened, item: Setting, recorded: float, now: float) -> list[float]:
    """Values from end to end of a setting's range, the recorded and the present one among them."""
    low, high = limits(item, recorded)
    margins = [event.margin for record in opened.run.records for event in record.events
               if isinstance(event, Decide) and event.margin is not None]
    if item.name == "threshold" and margins:
        low, high = min(margins) - 1, max(margins) + 1
    spread = [item.type(round(value, 0 if item.type is int else 4)) for value in np.linspace(low, high, STEPS).tolist()]
    return sorted({*spread, recorded, now})
