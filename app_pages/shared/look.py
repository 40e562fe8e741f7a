"""What pages ask of the theme that the browser shows."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from treegraft.view.charts import Theme


def theme() -> Theme:
    """The theme that the browser shows."""
    return st.context.theme.type or "light"


def emphasis() -> Literal["primary", "secondary"]:
    """The type of a page's main button. In the dark theme, the one colour that both texts and filled buttons take
    cannot be read in both places: it is for texts there."""
    return "primary" if theme() == "light" else "secondary"
