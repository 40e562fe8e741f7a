"""Scheduler page: where a run called its strong drafter, why, and what that was worth."""

from __future__ import annotations

import streamlit as st

from app_pages.scheduler.made import decisions_part
from app_pages.scheduler.missing import no_decisions
from app_pages.scheduler.summary import summary
from app_pages.scheduler.threshold import threshold_part
from app_pages.scheduler.worth import value_part
from app_pages.shared.recording import Opened, fragment, opened_recording, put_in_address, refuse
from treegraft.analysis.decisions import Decision, decisions
from treegraft.trace import Run, TraceError

PARTS = {"Decisions": decisions_part, "Value tree": value_part, "Threshold": threshold_part}


@st.cache_resource(max_entries=8, show_spinner="Reading the decisions …")
def decisions_of(_run: Run, key: str) -> list[Decision]:
    return decisions(_run)


@fragment
def parts(opened: Opened, found: list[Decision]) -> None:
    """The parts of the page; only the open one is worked out."""
    tabs = st.tabs(list(PARTS), on_change="rerun", key="scheduler part")
    for tab, show in zip(tabs, PARTS.values(), strict=True):
        if tab.open:
            with tab:
                show(opened, found)


def show(opened: Opened) -> None:
    found = decisions_of(opened.run, opened.key)
    if not found:
        no_decisions(opened.run)
        return
    top = st.container()
    parts(opened, found)
    with top:  # filled last: the values take a while
        summary(opened, found)


chosen = opened_recording()
put_in_address(chosen)
try:
    show(chosen)
except TraceError as error:
    refuse(error)
