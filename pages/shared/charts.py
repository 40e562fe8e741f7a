"""A chart on a page: the figure, what it says in one line, its numbers as a table, and the rounds behind what is
clicked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import streamlit as st

from pages.shared.recording import Opened, show_in_tree
from treegraft.view.charts import Figure, Theme

MOST_ROUNDS = 24
"""Rounds that are offered at once for what was clicked."""

Origin = Literal["measured", "replayed exactly", "estimated"]
COLORS = {"measured": "green", "replayed exactly": "blue", "estimated": "orange"}
MEANINGS = {
    "measured": "Taken from the recording: it happened, or a clock measured it.",
    "replayed exactly": "Worked out by running the policy again along the recorded text: what would have happened.",
    "estimated": "From measured costs of single forwards, or from recorded probabilities: what is likely.",
}


def theme() -> Theme:
    """The theme that the browser shows."""
    return st.context.theme.type or "light"


def origin_badge(origin: Origin) -> None:
    """Says where the numbers beside it come from."""
    st.badge(origin.capitalize(), color=COLORS[origin], help=MEANINGS[origin])


def chart(figure: Figure, *, key: str, reading: str, table: pd.DataFrame, opened: Opened | None = None,
          rounds: Mapping[str, Sequence[int]] | None = None) -> None:
    """Draw a figure. `reading` says in one line what it shows, and is its text for those who cannot see it.

    Where `rounds` is given, a click on a bar or a point whose `customdata` is a key of it offers those rounds of
    `opened` (a click costs a run of the script around it: draw such charts in a fragment)."""
    def keep() -> None:
        points = st.session_state[key].selection.points
        if points:  # an empty selection also comes when the figure has changed: no news
            st.session_state[f"{key} clicked"] = customdata(points[0])

    options: dict[str, Any] = {"on_select": keep, "selection_mode": "points"} if rounds else {}
    st.plotly_chart(figure, key=key, config={"displayModeBar": False}, alt=reading, theme=None, **options)
    with st.container(horizontal=True, vertical_alignment="top"):
        st.markdown(reading, width="stretch")
        with st.popover("Table", icon=":material/table:"):
            st.dataframe(table, hide_index=True)
    if rounds and (clicked := st.session_state.get(f"{key} clicked")) in rounds:
        offer_rounds(opened, rounds[clicked], f"{key} rounds", clicked)


def customdata(point: Mapping[str, Any]) -> str | None:
    """The `customdata` of a selected point, which arrives alone or in a list."""
    value = point.get("customdata")
    return value[0] if isinstance(value, list) and value else value


def offer_rounds(opened: Opened, rounds: Sequence[int], key: str, title: str) -> None:
    """The rounds as buttons that lead to the Tree page."""
    st.text(f"{title}: {len(rounds)} rounds" if len(rounds) != 1 else f"{title}: 1 round")
    choice = st.pills("Rounds", list(rounds[:MOST_ROUNDS]), format_func=lambda round: f"Round {round}", key=key,
                      label_visibility="collapsed")
    if len(rounds) > MOST_ROUNDS:
        st.caption(f"These are the first {MOST_ROUNDS}.")
    if choice is not None:
        show_in_tree(opened, choice)
