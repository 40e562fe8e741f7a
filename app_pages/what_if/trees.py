"""One round: the recorded tree, and beside it what the new settings would have drafted at the same place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app_pages.shared.charts import origin_badge
from app_pages.shared.glossary import explain
from app_pages.shared.recording import Opened
from app_pages.what_if.replays import Replays
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.replayed_round import replayed_run
from treegraft.analysis.text import visible
from treegraft.analysis.whatif import change
from treegraft.settings import SettingError
from treegraft.view.model import run_view
from treegraft.view.player import player


def show_trees(opened: Opened, found: Replays, changed: Mapping[str, Any]) -> None:
    last = len(opened.run.rounds) - 1
    number = st.slider("Round", 0, last, key=f"what if round {opened.key}") if last > 0 else 0
    round = opened.run.rounds[number]
    left, right = st.columns(2)
    with left:
        st.markdown("**As recorded**")
        origin_badge("measured")
        player(run_view(opened.run, number, 1), name=f"{opened.key}/{number}", compact=True, key="recorded tree")
    with right:
        st.markdown("**Under the new settings**" if changed else "**Under the recorded settings, replayed**")
        origin_badge(found.whatif.counted)
        try:
            with found.lock:
                run = replayed_run(found.whatif, round.output_start - 1, change(found.whatif.policy, **changed))
        except (NotRecorded, SettingError) as error:
            st.text(f"This tree cannot be known: {visible(str(error))}.")
            return
        player(run_view(run), name=f"{opened.key}/{number}/{sorted(changed.items())}", compact=True,
               key="replayed tree")
    explain("Both trees stand at the same place of the text. In the replayed one, the target's probabilities are known "
            "along the text alone, for tokens among its recorded best ones; it has no times.")
