"""What-if page: the recorded run under other settings, without the models."""

from __future__ import annotations

import streamlit as st

from app_pages.shared.recording import Opened, fragment, opened_recording, put_in_address, refuse
from app_pages.what_if.controls import choose_costs, choose_settings
from app_pages.what_if.curve import show_curve
from app_pages.what_if.missing import cannot_replay
from app_pages.what_if.numbers import show_numbers
from app_pages.what_if.real import show_real
from app_pages.what_if.replays import Replays, replays
from app_pages.what_if.temperature import show_temperature
from app_pages.what_if.trees import show_trees
from treegraft.trace import TraceError

VIEWS = ("Range of a setting", "Trees", "Temperature", "Run it for real")


@fragment
def show(opened: Opened, found: Replays) -> None:
    """Settings, what they come to, and a closer look; only this part runs again when a setting moves."""
    with st.container(border=True):
        changed = choose_settings(opened, found.whatif.policy)
        profile = choose_costs()
    known = show_numbers(opened, found, changed, profile)
    view = st.segmented_control("A closer look", VIEWS, default=VIEWS[0], key="what if view", required=True,
                                label_visibility="collapsed")
    if view == VIEWS[0]:
        show_curve(opened, found, changed, profile)
    elif view == VIEWS[1]:
        show_trees(opened, found, changed)
    elif view == VIEWS[2]:
        show_temperature(opened)
    else:
        show_real(opened, found, changed, profile, known)


chosen = opened_recording()
put_in_address(chosen)
try:
    if not chosen.run.rounds:
        st.info("This recording has no rounds yet, so there is nothing to replay.")
    elif (ready := replays(chosen)).whatif:
        show(chosen, ready)
    else:
        cannot_replay(chosen, ready.problem)
except TraceError as error:
    refuse(error)
