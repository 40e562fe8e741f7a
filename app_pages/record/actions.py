"""What the user may do while a run goes on, and after it."""

from __future__ import annotations

import streamlit as st

from app_pages.record.demo import demo_switch, is_demo
from app_pages.record.playlist import step_buttons
from app_pages.shared.look import emphasis
from treegraft.live import LiveRun, Snapshot
from treegraft.view.library import name_of


def show_actions(run: LiveRun, now: Snapshot) -> None:
    if now.is_live:
        st.button("Stop", icon=":material/stop:", on_click=run.stop, disabled=run.is_stopping, key="stop_run")
    elif now.path:
        show_results(run, now)
    if is_demo() or st.session_state.get("listed_place") is not None:
        step_buttons(run.request, now.is_live)
    if not now.is_live and st.button("New run" if now.path else "Back",
                                     icon=":material/add:" if now.path else ":material/arrow_back:"):
        del st.session_state.live_run
        st.rerun()
    if is_demo() or now.is_live:
        demo_switch()


def show_results(run: LiveRun, now: Snapshot) -> None:
    """Where the recording can be looked at."""
    if st.button("Open in the Tree page", type="secondary" if is_demo() else emphasis(),
                 icon=":material/account_tree:"):
        place = {"trace": name_of(now.path), "run": str(run.request.turn)}
        st.switch_page("app_pages/tree/page.py", query_params=place)
    if not is_demo():
        st.download_button("Download", now.path.read_bytes, now.path.name, icon=":material/download:")
