"""What a recording lacks for a part of the Scheduler page, and how to get it."""

from __future__ import annotations

import streamlit as st

from app_pages.shared.demos import offer_demos
from treegraft.trace import Run
from treegraft.view.labels import name

DEMOS = ("scheduler", "treegraft")
"""Bundled recordings that have everything this page shows."""

RECORD = """treegraft record --policy treegraft --drafter lookup --drafter eagle3 --level exhaustive \\
  --prompt "Why is the sky blue?" --out sky.jsonl.zst"""


def no_decisions(run: Run) -> None:
    """For a run in which nothing was decided."""
    policy = run.header.policy.name
    if policy == "treegraft":
        lacking("This run has no decisions: it ended before its first round drafted anything.")
    else:
        lacking(f"Nothing was decided in this run: the policy {name(policy)} has no layers that call or skip. The "
                "policy treegraft has.")


def lacking(reason: str) -> None:
    """Say what is missing, how to record it, and which bundled recordings have it."""
    with st.container(border=True):
        st.text(reason)
        st.text("To see it, open a recording that has it:")
        offer_demos(DEMOS)
        st.text("Or record one:")
        st.code(RECORD, language=None, wrap_lines=True)
