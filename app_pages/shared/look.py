"""What pages ask of the theme that the browser shows."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from treegraft.view.charts import Theme
from treegraft.view.palette import PAGE


def theme() -> Theme:
    """The theme that the browser shows."""
    return st.context.theme.type or "light"


def readable_choices() -> None:
    """Streamlit writes what is chosen in a multiselect in white, which cannot be read on the main colour of the dark
    theme."""
    if theme() == "dark":
        st.html(f"<style>[data-testid=stMultiSelectTagsContainer] [data-tag] * {{ color: {PAGE['dark']}; }}</style>")


def emphasis() -> Literal["primary", "secondary"]:
    """The type of a page's main button. In the dark theme, the one colour that both texts and filled buttons take
    cannot be read in both places: it is for texts there."""
    return "primary" if theme() == "light" else "secondary"
