"""Acceptance page: how much of what was drafted the target accepted, where that stops, and what it costs."""

from __future__ import annotations

import streamlit as st

from app_pages.acceptance.counted import counted
from app_pages.acceptance.numbers import numbers
from app_pages.acceptance.parts import elsewhere_part, length_part, origins_part, stops_part, time_part
from app_pages.shared.recording import Opened, fragment, opened_recording, put_in_address, refuse
from treegraft.policies.plain import Plain
from treegraft.trace import TraceError

PARTS = {"Length": length_part, "Where it stops": stops_part, "Who proposed it": origins_part, "Time": time_part,
         "Same numbers elsewhere": elsewhere_part}
ONE, ALL = "This run", "All runs together"


@fragment
def parts(opened: Opened, together: bool) -> None:
    """The parts of the page; only the open one is worked out."""
    tabs = st.tabs(list(PARTS), on_change="rerun", key="part", bind="query-params")
    for tab, show in zip(tabs, PARTS.values(), strict=True):
        if tab.open:
            with tab:
                show(opened, together)


def show(opened: Opened) -> None:
    together = len(opened.trace.runs) > 1 and st.segmented_control(
        "Runs", [ONE, ALL], default=ONE, required=True, key="acceptance of", label_visibility="collapsed",
        persist_state="session") == ALL
    counts = counted(opened, together).summary
    if not counts.rounds:
        st.info("There are no rounds to count: " + (
            "the text ended with the token that reading the prompt chose." if counts.tokens else
            "the recording ends before the first token was chosen.") + " Open another recording above.")
        return
    numbers(counts, opened.run.header.policy.name == Plain.name)
    parts(opened, together)


chosen = opened_recording()
put_in_address(chosen)
try:
    show(chosen)
except TraceError as error:
    refuse(error)
