"""The whole range of one setting, the others as they are set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app_pages.shared.charts import chart, origin_badge
from app_pages.shared.look import theme
from app_pages.shared.recording import Opened
from app_pages.what_if.controls import limits
from app_pages.what_if.replays import Replays
from treegraft.analysis.cost_profile import CostProfile
from treegraft.analysis.whatif import Replay
from treegraft.analysis.whatif_numbers import tokens_per_second
from treegraft.settings import Setting, settings_of
from treegraft.trace.records import Decide
from treegraft.view.whatif_charts import Point, curve, reading

STEPS = 13


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
    left, right = st.columns(2)
    rows = pd.DataFrame([{name: point.value, "tau": point.tau, "tokens/s (estimated)": point.tokens_per_second}
                         for point in points])
    for column, of, unit, origin in ((left, "tau", "tau", "replayed exactly"),
                                     (right, "tokens_per_second", "tokens/s", "estimated")):
        with column:
            origin_badge(origin)
            chart(curve(points, of, name, now, unit, theme()), key=f"what if {of}",
                  reading=reading(points, of, name, unit), table=rows)
    if unknown:
        st.caption(f"{unknown} of {unknown + len(points)} values cannot be replayed: the recording lacks what the "
                   "drafters would have said.")


def points_of(opened: Opened, found: Replays, item: Setting, changed: dict[str, Any], now: float,
              profile: CostProfile) -> tuple[list[Point], int]:
    """The replays over a range, and how many values cannot be replayed."""
    points, unknown = [], 0
    recorded = getattr(found.whatif.policy, item.name)
    for value in values(opened, item, recorded, now):
        settings = {**changed, item.name: value}
        if value == recorded:
            del settings[item.name]
        replay = found.under(settings)
        if isinstance(replay, Replay):
            points.append(Point(value, replay.tau, tokens_per_second(found.whatif, replay, profile)))
        else:
            unknown += 1
    return points, unknown


def values(opened: Opened, item: Setting, recorded: float, now: float) -> list[float]:
    """Values from end to end of a setting's range, the recorded and the present one among them."""
    low, high = limits(item, recorded)
    margins = [event.margin for record in opened.run.records for event in record.events
               if isinstance(event, Decide) and event.margin is not None]
    if item.name == "threshold" and margins:
        low, high = min(margins) - 1, max(margins) + 1
    spread = [item.type(round(value, 0 if item.type is int else 4)) for value in np.linspace(low, high, STEPS).tolist()]
    return sorted({*spread, recorded, now})
