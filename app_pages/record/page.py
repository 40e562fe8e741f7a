"""Record page: choose models, a policy and a prompt, then watch the run while it is decoded."""

from __future__ import annotations

import streamlit as st

from app_pages.record.compose import compose
from app_pages.record.conversation import carry_on
from app_pages.record.demo import is_demo
from app_pages.record.talk import compose_for_talk
from app_pages.record.watch import watch
from treegraft.live import LiveRun

WIDTH = 1040

run: LiveRun | None = st.session_state.get("live_run")
if run:
    watch(run)
    if run.snapshot().state in ("finished", "stopped") and run.snapshot().path and not is_demo():
        carry_on(run.request, run.snapshot())
elif is_demo():
    compose_for_talk()
else:
    with st.container(horizontal_alignment="center"), st.container(width=WIDTH):
        compose()
