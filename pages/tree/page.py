"""Tree page: play a recording, one draft tree and one event at a time."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.shared.recording import Opened, opened_recording, refuse
from treegraft.trace import Run, TraceError
from treegraft.view.export import node_rows, nodes_csv, replay_html
from treegraft.view.figure import tree_figure
from treegraft.view.library import name_of
from treegraft.view.model import run_view
from treegraft.view.player import player, wanted_round


@st.cache_resource(max_entries=16, show_spinner="Drawing the trees …")
def view_of(_run: Run, name: str, first: int) -> dict:
    return run_view(_run, first)


@st.fragment
def show(opened: Opened) -> None:
    """Player, details and downloads of one run; only this part runs again when the player asks for something."""
    run, name, path = opened.run, opened.key, opened.path
    asked = wanted_round(name)
    linked = st.query_params.get("round", "")
    first = asked if asked is not None else max(int(linked) - 8, 0) if linked.isdecimal() and len(linked) < 10 else 0
    view = view_of(run, name, first if len(run.rounds) > len(view_of(run, name, 0)["rounds"]) else 0)
    place = player(view, name=name, link=opened.link, follow=bool(st.session_state.get("details")))
    details = st.expander("Table and figure of this round", key="details", on_change="rerun")
    if details.open and view["rounds"]:
        number = min(max((place.round if place else 0) - view["first"], 0), len(view["rounds"]) - 1)
        table, figure = details.tabs(["Nodes", "Figure"])
        table.dataframe(pd.DataFrame(node_rows(view, view["rounds"][number])), hide_index=True)
        theme = st.context.theme.type or "light"
        figure.plotly_chart(tree_figure(view, number, theme), alt="The draft tree of the round")
    with st.container(horizontal=True):
        st.download_button("Replay page", lambda: replay_html(run), f"{name_of(path)}.html", "text/html",
                           help="One HTML file that plays this run in any browser, offline.")
        st.download_button("Nodes as CSV", lambda: nodes_csv(run), f"{name_of(path)}-nodes.csv", "text/csv")
        st.download_button("Trace", path.read_bytes, path.name)


chosen = opened_recording()
try:
    show(chosen)
except TraceError as error:
    refuse(error)
