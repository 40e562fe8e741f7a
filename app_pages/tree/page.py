"""Tree page: play a recording, one draft tree and one event at a time."""

from __future__ import annotations

from importlib import import_module

import streamlit as st

from app_pages.shared.recording import Opened, fragment, opened_recording
from app_pages.tree.download import download_menu
from app_pages.tree.origin import tell_branch
from app_pages.tree.shown import shown_at, wanted_place
from treegraft.trace import Run
from treegraft.view.model import run_view
from treegraft.view.player import player, wanted_round

# What can stand below the player, by module and function: only the one that is open is imported and runs, so that the
# first tree need not wait for what charts and tables load.
PANELS = {
    "Rejections": "rejections.show_rejections", "Mask and caches": "inspector.show_inspector",
    "Nodes": "details.show_nodes", "Figure": "details.show_figure", "Ask the models": "branch.show_branch",
    "Notes": "notes.show_notes"}


@st.cache_resource(max_entries=16, show_spinner="Drawing the trees …")
def view_of(_run: Run, name: str, first: int) -> dict:
    return run_view(_run, first)


def view_around(opened: Opened) -> dict:
    """The view that holds the round that the player asked for, or that of the address."""
    asked, linked = wanted_round(opened.key), st.query_params.get("round", "")
    first = asked if asked is not None else max(int(linked) - 8, 0) if linked.isdecimal() and len(linked) < 10 else 0
    whole = view_of(opened.run, opened.key, 0)
    return view_of(opened.run, opened.key, first) if len(opened.run.rounds) > len(whole["rounds"]) else whole


@fragment
def show(opened: Opened) -> None:
    """Player, panel and downloads of one run; only this part runs again when the player asks for something."""
    view, panel = view_around(opened), st.session_state.get("panel")
    go, wish = wanted_place(opened.key)
    place = player(view, name=opened.key, link=opened.link, follow=panel is not None, go=go, wish=wish)
    shown = shown_at(opened, view, place)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        if view["rounds"]:
            st.pills("Below the tree", list(PANELS), key="panel", label_visibility="collapsed", wrap=True)
        download_menu(shown)
    if panel in PANELS and view["rounds"]:
        module, function = PANELS[panel].split(".")
        getattr(import_module(f"app_pages.tree.{module}"), function)(shown)


chosen = opened_recording()
tell_branch(chosen)
show(chosen)
