"""Panels: the nodes of the round as a table, and its tree as a figure."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app_pages.shared.look import theme
from app_pages.tree.shown import Shown
from treegraft.view.export import node_rows
from treegraft.view.figure import tree_figure


def show_nodes(shown: Shown) -> None:
    rows = node_rows(shown.view, shown.view["rounds"][shown.number])
    st.dataframe(pd.DataFrame(rows), hide_index=True, alt=f"The nodes of round {shown.round.index}")


def show_figure(shown: Shown) -> None:
    st.plotly_chart(tree_figure(shown.view, shown.number, theme()), theme=None, key="figure",
                    config={"displayModeBar": False}, alt=f"The draft tree of round {shown.round.index}")
