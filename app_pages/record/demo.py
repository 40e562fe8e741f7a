"""The page for a projector: `?demo=1` in the address hides navigation and settings, and makes everything large."""

from __future__ import annotations

import streamlit as st


def is_demo() -> bool:
    return st.query_params.get("demo") == "1"


def demo_switch() -> None:
    """The button that goes there, or back."""
    if is_demo():
        if st.button("Leave projector view", icon=":material/close_fullscreen:", type="tertiary"):
            del st.query_params["demo"]
            st.rerun()
    elif st.button("Projector view", icon=":material/open_in_full:", type="tertiary", help=(
            "Hides settings and navigation and makes text, tree and numbers large. F11 gives it the whole screen.")):
        st.query_params["demo"] = "1"
        st.rerun()
