"""What a recording lacks for replays, and how to get it."""

from __future__ import annotations

import streamlit as st

from app_pages.shared.demos import offer_demos
from app_pages.shared.recording import Opened
from app_pages.what_if.command import command
from app_pages.what_if.temperature import show_temperature
from treegraft.policies import POLICIES
from treegraft.trace.records import Header

DEMOS = ("eagle2", "graft", "treegraft", "repetition")
"""Bundled recordings that can be replayed."""


def cannot_replay(opened: Opened, problem: str) -> None:
    """Say why, how to record it so that it can be replayed, and which bundled recordings can."""
    with st.container(border=True):
        st.text(f"This recording cannot be replayed under other settings: {problem}.")
        st.text("To try this page, open a recording that can:")
        offer_demos(DEMOS)
        if can_be_recorded(opened.run.header):
            st.text("Or record this one again, with what the drafters would have said elsewhere:")
            st.code(command(opened.run.header, {}, "dense"), language=None, wrap_lines=True)
    if opened.run.header.decoding.temperature == 0:
        st.subheader("Temperature", anchor=False)
        show_temperature(opened)


def can_be_recorded(header: Header) -> bool:
    """Whether a new recording of the run could be replayed."""
    return header.decoding.temperature == 0 and header.policy.name in POLICIES and all(
        drafter.state == "context" or "learn" in drafter.settings for drafter in header.drafters)
