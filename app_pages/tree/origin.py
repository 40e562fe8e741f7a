"""Where a branch recording comes from."""

from __future__ import annotations

import streamlit as st

from app_pages.shared.recording import TREE_PAGE, Opened, go_to
from treegraft.view.labels import label, name
from treegraft.view.library import traces


def tell_branch(opened: Opened) -> None:
    """Where the run comes from, if it is a branch of another one."""
    branch = opened.run.header.prompt.branch
    if branch is None:
        return
    node = f"node {branch.node}" if branch.node >= 0 else "the bonus"
    token = label(opened.run.pieces.get(branch.token))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge("Branch", icon=":material/call_split:", color="violet")
        st.text(f"It leaves {name(branch.trace)} in round {branch.round} after {node}, where \u201c{token}\u201d was "
                "forced.", width="stretch")
        if branch.trace in traces() and st.button("Go there", key="branch_origin", icon=":material/arrow_back:"):
            place = {"trace": branch.trace, "run": branch.run, "round": branch.round,
                     "node": branch.node if branch.node >= 0 else "bonus"}
            go_to(TREE_PAGE, {parameter: str(value) for parameter, value in place.items()})
