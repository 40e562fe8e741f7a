"""A chart on a page: the figure, what it says in one line, its numbers as a table, and the rounds behind what is
clicked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pandas as pd
import streamlit as st

from app_pages.shared.glossary import explain
from app_pages.shared.recording import Opened, show_in_tree
from treegraft.view.charts import Chart, Figure

MOST_ROUNDS = 24
"""Rounds that are offered at once for what was clicked."""

Origin = Literal["measured", "replayed exactly", "estimated"]
Place = int | tuple[int, int]
"""A round by its number, or by those of its run and of itself."""

COLORS = {"measured": "green", "replayed exactly": "blue", "estimated": "orange"}
MEANINGS = {
    "measured": "Taken from the recording: it happened, or a clock measured it.",
    "replayed exactly": "Worked out by running the policy again along the recorded text: what would have happened.",
    "estimated": "From measured costs of single forwards, from recorded probabilities, or by replaying what was "
                 "recorded in low precision: what is likely.",
}


def origin_badge(origin: Origin) -> None:
    """Says where the numbers beside it come from."""
    st.badge(origin.capitalize(), color=COLORS[origin], help=MEANINGS[origin])


def draw(made: Chart, key: str, opened: Opened) -> None:
    """Draw a chart that the view made for `opened`."""
    chart(made.figure, key=key, reading=made.reading, table=pd.DataFrame(made.rows), opened=opened, rounds=made.rounds)


def chart(figure: Figure, *, key: str, reading: str, table: pd.DataFrame, opened: Opened | None = None,
          rounds: Mapping[str, Sequence[Place]] | None = None) -> None:
    """Draw a figure. `reading` says in one line of plain text what it shows, also to those who cannot see it.

    Where `rounds` is given, a click on a bar or a point whose `customdata` is a key of it offers those rounds of
    `opened`; so does the list below the figure, for keyboards and small screens. (A click costs a run of the script
    around it: draw such charts in a fragment.)"""
    chosen = f"{key} chosen"

    def keep() -> None:
        points = st.session_state[key].selection.points
        if points and customdata(points[0]) in (rounds or {}):  # an empty one also comes when the figure has changed
            st.session_state[chosen] = customdata(points[0])

    options: dict[str, Any] = {"on_select": keep, "selection_mode": "points"} if rounds else {}
    st.plotly_chart(figure, key=key, config={"displayModeBar": False}, alt=reading, theme=None, **options)
    explain(reading)
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover("Table", icon=":material/table:"):
            st.dataframe(table, hide_index=True, width="content")
        if rounds:
            if st.session_state.get(chosen) not in rounds:
                st.session_state.pop(chosen, None)
            st.selectbox("Rounds behind a bar or a point", list(rounds), index=None, key=chosen, width=240,
                         placeholder="Click a bar, or choose it here", label_visibility="collapsed")
    if rounds and opened and st.session_state.get(chosen) in rounds:
        offer_rounds(opened, rounds[st.session_state[chosen]], f"{key} rounds")


def customdata(point: Mapping[str, Any]) -> str | None:
    """The `customdata` of a selected point, which arrives alone or in a list."""
    value = point.get("customdata")
    return value[0] if isinstance(value, list) and value else value


def offer_rounds(opened: Opened, rounds: Sequence[Place], key: str) -> None:
    """The rounds as buttons that lead to the Tree page."""
    def title(place: Place) -> str:
        return f"Round {place}" if isinstance(place, int) else f"Run {place[0]}, round {place[1]}"

    several = len({place if isinstance(place, int) else place[0] for place in rounds}) > 1 and not all(
        isinstance(place, int) for place in rounds)
    shown = [place if several or isinstance(place, int) else place[1] for place in rounds[:MOST_ROUNDS]]
    choice = st.pills(f"{len(rounds):,} rounds: open one in the tree" if len(rounds) != 1 else
                      "1 round: open it in the tree", range(len(shown)), key=key,
                      format_func=lambda number: title(shown[number]))
    if len(rounds) > MOST_ROUNDS:
        st.caption(f"These are the first {MOST_ROUNDS}.")
    if choice is not None:
        run, round = (opened.number, place) if isinstance(place := rounds[choice], int) else place
        show_in_tree(replace(opened, number=run), round)
