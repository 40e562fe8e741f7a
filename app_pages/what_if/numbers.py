"""What the settings come to: the numbers beside those of the recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app_pages.record.words import plain
from app_pages.shared.charts import MEANINGS, origin_badge
from app_pages.shared.recording import Opened
from app_pages.what_if.replays import Replays
from treegraft.analysis.cost_profile import CostProfile
from treegraft.analysis.metrics import DEFINITIONS, Summary, summary
from treegraft.analysis.whatif import Replay
from treegraft.analysis.whatif_numbers import Number, numbers
from treegraft.trace import Run
from treegraft.view.scheduler_words import number

SHOWN = ("tau", "tokens/s", "against plain", "draft forwards a round", "rounds")
"""Those that stand on top; the table has all."""

COSTS = ("rounds", "draft forwards a round")
"""A smaller number of these is not worse, so its colour says nothing."""

HELP = {
    "tokens/s": "From the measured cost of single forwards and the host's median time of a round; reading the prompt "
                "is left out. The difference is that of two estimates.",
    "against plain": "Times plain decoding. Estimated: one forward of the target over one token for each token. "
                     "Measured: plain decoding of the same prompt, where that was run.",
    "draft forwards a round": "Forwards of drafters that run a model.",
    "calls": "Layers in which the strong drafter was called.",
    "verified nodes": DEFINITIONS["drafted"],
}

PROMPT_LEFT_OUT = ("Reading the prompt is left out of all tokens/s here, also of the recording's: they differ from "
                   "those on the Acceptance and Compare pages, which include it.")


@st.cache_data(max_entries=8)
def summary_of(_run: Run, key: str) -> Summary:
    return summary(_run)


def show_numbers(opened: Opened, found: Replays, changed: Mapping[str, Any], profile: CostProfile) -> bool:
    """The numbers under the changed settings; False, with the reason and the way out, where they cannot be known."""
    with st.spinner("Replaying …"):
        after = found.under(changed)
    if not isinstance(after, Replay):
        st.warning(plain(f"These settings cannot be replayed: {after}."))
        return False
    made = numbers(found.whatif, summary_of(opened.run, opened.key), found.under({}), after, profile)
    with st.container(horizontal=True, gap="medium"):
        for one in (one for one in made if one.name in SHOWN):
            with st.container(width="content", gap="small"):
                delta = f"{one.difference:+.{one.digits}f}" if changed and one.difference is not None else None
                st.metric(one.name, text_of(one.after, one.digits), delta, width="content",
                          delta_arrow="auto" if one.difference else "off",
                          delta_color="normal" if one.difference and one.name not in COSTS else "off",
                          help=HELP.get(one.name) or DEFINITIONS.get(one.name))
                origin_badge(one.origin)
    if found.inexact:
        st.caption(plain(found.inexact))
    with st.expander("All numbers, beside the recording's own"):
        st.dataframe(table(made), hide_index=True)
        st.caption(PROMPT_LEFT_OUT)
        st.caption(" ".join(f"**{name.capitalize()}:** {words}" for name, words in MEANINGS.items()))
    return True


def text_of(value: float | None, digits: int) -> str:
    return "\N{EN DASH}" if value is None else f"{value:,.{digits}f}"


def table(made: list[Number]) -> pd.DataFrame:
    return pd.DataFrame([{
        "": one.name, "recording (measured)": text_of(one.measured, one.digits),
        "recorded settings, replayed": text_of(one.before, one.digits), "new settings": text_of(one.after, one.digits),
        "difference": "" if one.difference is None else number(one.difference, f"+,.{one.digits}f"),
        "the replays are": one.origin} for one in made])
