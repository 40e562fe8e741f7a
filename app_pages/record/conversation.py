"""Going on after an answer."""

from __future__ import annotations

import streamlit as st

from app_pages.record.start import begin
from app_pages.record.words import plain
from treegraft.live import Request, Snapshot, next_turn, suggested_turn


def carry_on(request: Request, now: Snapshot) -> None:
    """Ask for the next turn of the conversation, and record it into a trace that holds all turns."""
    suggested = suggested_turn(request)
    if suggested and st.button(f"Ask: {plain(suggested)}", icon=":material/subdirectory_arrow_right:"):
        begin(next_turn(request, now, suggested))
    with st.form("next turn", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input("Continue the conversation", placeholder="Ask something about the answer …")
        if st.form_submit_button("Record the answer") and text.strip():
            begin(next_turn(request, now, text))
