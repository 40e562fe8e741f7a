"""What a worker is doing, on pages that start one beside what they are about."""

from __future__ import annotations

import streamlit as st

from app_pages.record.words import plain
from treegraft.live import Snapshot, Worker


def show_worker(work: Worker, live: bool) -> None:
    """What the worker is doing and a button that stops it; what went wrong. To be drawn by `polled`."""
    now = work.snapshot()
    if live and not now.is_live:
        st.rerun()
    if now.is_live:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(doing(now), width="stretch")
            st.button("Stop", icon=":material/stop:", on_click=work.stop, disabled=work.is_stopping,
                      key=f"stop {type(work).__name__}")
    elif now.state == "failed":
        st.error(plain(now.error))
    elif now.state == "stopped":
        st.caption("Stopped.")


def doing(now: Snapshot) -> str:
    """What a live worker is at, in words."""
    if now.state == "queued":
        return f"Another session is decoding: you are number {now.ahead} in the queue."
    if now.state == "loading":
        return f"{now.stage.capitalize()} …"
    if now.state == "probing":
        return f"{now.tokens} tokens; the drafters are asked what replays need …"
    return f"{now.tokens} tokens so far …" if now.tokens else "The models are reading …"
