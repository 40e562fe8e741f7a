"""The strip as a Streamlit component: the text of all runs, and a click or a key that asks for a position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import streamlit as st

from treegraft.view.compare_strip import HTML, script, styles

KEY = "compare strip"

_component = st.components.v2.component("treegraft.strip", html=HTML, css=styles(), js=script())


def strip(view: dict[str, Any], position: int, go: Callable[[int], None]) -> None:
    """Draw a `compare_strip.strip_view`; `go` hears the position that the user asks for, before the script runs again.
    """
    def asked() -> None:
        wanted = st.session_state[KEY].get("go")
        if isinstance(wanted, int):
            go(wanted)

    _component(key=KEY, data={"view": msgspec.json.encode(view).decode(), "position": position}, on_go_change=asked)
