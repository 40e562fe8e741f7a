"""What is on a projector before a run."""

from __future__ import annotations

import streamlit as st

from app_pages.record.compose import choose_settings
from app_pages.record.demo import demo_switch
from app_pages.record.playlist import choose_listed, listed, step_buttons
from app_pages.record.start import begin, offer_fetch
from app_pages.shared.look import emphasis
from treegraft.public import LONGEST_PROMPT, is_public


def compose_for_talk() -> None:
    """The prompts of the list, large, and a line for one from the audience; the settings are folded away."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        heading = st.empty()
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            settings = st.popover("Settings", icon=":material/tune:", width="content")
            demo_switch()
    chosen = choose_settings(settings, settings, settings)
    if chosen.must_fetch:
        heading.header("The model is not here yet", anchor=False)
        offer_fetch(chosen.models.target)
        return
    heading.header("Choose a prompt" if listed() else "Type a prompt", anchor=False)
    choose_listed(chosen.request)
    if not listed():
        st.text("The prompt list is empty. Type a prompt below, or leave the projector view to fill the list.")
    with st.form("ask", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        prompt = st.text_input("Or ask something else" if listed() else "Prompt",
                               max_chars=LONGEST_PROMPT if is_public() else None)
        if st.form_submit_button("Record", type=emphasis()) and (request := chosen.asking(prompt)):
            begin(request)
    with st.container(horizontal=True):
        step_buttons(chosen.request)
