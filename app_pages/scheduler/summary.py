"""The Scheduler page's numbers over the whole run."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app_pages.scheduler.valued import valued, verdict_of
from app_pages.shared.charts import origin_badge
from app_pages.shared.glossary import explain
from app_pages.shared.recording import Opened
from treegraft.analysis.decisions import Decision
from treegraft.analysis.regret import Verdict
from treegraft.view.scheduler_words import judged

WIDTH = 165
"""Of a number, in pixels."""


def summary(opened: Opened, found: Sequence[Decision]) -> None:
    """How many decisions and calls there were, and what they lost against the oracle."""
    calls = sum(one.call for one in found)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.metric("Decisions", len(found), width=WIDTH,
                  help="Layers for which one of the drafters was chosen, over all rounds.")
        st.metric("Calls", f"{calls} ({calls / len(found):.0%})", width=WIDTH,
                  help="Decisions for the strong drafter, and their share.")
        st.metric("Calls a round", f"{calls / max(1, len(opened.run.records)):.2f}", width=WIDTH,
                  help="Calls / all rounds of the run.")
        origin_badge("measured")
    known = valued(opened)
    found = verdict_of(known, opened.key) if known.values else None
    if found:
        against_oracle(found)
        if why := known.values.whatif.inexact:
            st.caption(why)


def against_oracle(found: Verdict) -> None:
    """The decisions beside the best ones."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.metric("Oracle agrees", f"{found.decisions.agreement:.0%}", width=WIDTH,
                  help="Decisions that lose no time against the other choice, if all later decisions are the best "
                       "ones. The oracle is the one who knows the text that follows.")
        st.metric("Time lost", f"{found.lost:,.0f} ms", width=WIDTH,
                  help="Regret: what the run's rounds take longer than the oracle's, by the measured cost of each "
                       "forward.")
        st.metric("Share of the time", f"{found.share:.0%}" if found.share is not None else "-", width=WIDTH,
                  help="Time lost / time that the run's rounds take, by the same costs.")
        origin_badge("estimated")
    explain(judged(found))
