"""The Scheduler page's threshold sweep."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app_pages.scheduler.missing import lacking
from app_pages.scheduler.valued import sweep_of, valued
from app_pages.shared.charts import chart, origin_badge
from app_pages.shared.look import theme
from app_pages.shared.recording import Opened
from treegraft.analysis.decisions import Decision
from treegraft.view.scheduler_charts import threshold_chart
from treegraft.view.scheduler_words import sweep_rows, swept


def threshold_part(opened: Opened, found: Sequence[Decision]) -> None:
    """Speed and acceptance of the run at every threshold."""
    known = valued(opened)
    swept_run = sweep_of(opened.run, known, opened.key)
    if isinstance(swept_run, str):
        lacking(swept_run)
        return
    table = pd.DataFrame(sweep_rows(swept_run))
    speed, tau = st.columns(2)
    with speed:
        st.subheader("Tokens per second")
        origin_badge("estimated")
        if swept_run.outcomes[0].tokens_per_second is None:
            st.text("The trace has no cost curves, from which times are estimated; treegraft record measures them.")
        else:
            chart(threshold_chart(swept_run, theme(), "tokens_per_second", "Tokens/s"), key=f"speed of {opened.key}",
                  reading=swept(swept_run), table=table)
    with tau:
        st.subheader("Tau: tokens a round")
        origin_badge("estimated" if swept_run.inexact else "replayed exactly")
        chart(threshold_chart(swept_run, theme(), "tau", "Tau"), key=f"tau of {opened.key}",
              reading="A low threshold calls more and writes more tokens a round; whether that is faster depends on "
                      "what calls cost.", table=table)
    if swept_run.inexact:
        st.caption(swept_run.inexact)
    if "oracle" not in swept_run.bounds:
        st.caption(f"There is no line of the oracle. {known.problem}")
