"""What a recording lacks for replays, and how to get it."""

from __future__ import annotations

import streamlit as st

from app_pages.shared.demos import offer_demos
from app_pages.shared.recording import Opened
from app_pages.what_if.command import command
from app_pages.what_if.temperature import show_temperature

DEMOS = ("eagle2", "graft", "treegraft", "repetition")
"""Bundled recordings that can be replayed."""


def cannot_replay(opened: Opened, problem: str) -> None:
    """Say why, how to record it so that it can be replayed, and which bundled recordings can."""
    with st.container(border=True):
        st.text(f"This recording cannot be replayed under other settings: {problem}.")
        st.text("To try this page, open a recording that can:")
        offer_demos(DEMOS)
        if opened.run.header.decoding.temperature == 0:
            st.text("Or record this one again, with what the drafters would have said elsewhere:")
            st.code(command(opened.run.header, {}, "dense"), language="bash", wrap_lines=True)
    if opened.run.header.decoding.temperature == 0:
        st.subheader("Temperature", anchor=False)
        show_temperature(opened)
