"""Bundled recordings offered where the chosen one lacks something."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from treegraft.view.library import title_of, traces


def offer_demos(names: Sequence[str]) -> None:
    """A button for each of the demos."""
    with st.container(horizontal=True):
        for name in names:
            if name in traces():
                st.button(f"Open the demo {title_of(name)}", key=f"open {name}", on_click=choose, args=(name,))


def choose(name: str) -> None:
    """Make a recording the chosen one."""
    st.session_state.trace = name
