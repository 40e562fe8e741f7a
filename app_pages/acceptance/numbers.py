"""The Acceptance page's numbers over everything that is counted."""

from __future__ import annotations

import streamlit as st

from app_pages.shared.charts import origin_badge
from treegraft.analysis.metrics import DEFINITIONS, Summary
from treegraft.view.acceptance_charts.say import count, percent

ITSELF = "This recording is plain decoding itself, so there is nothing to measure it against."


def numbers(counts: Summary, is_plain: bool) -> None:
    """The row on top: acceptance, speed, sizes. `counts` has rounds."""
    def show(title: str, value: str, meaning: str) -> None:
        st.metric(title, value, help=DEFINITIONS.get(meaning, meaning), width=170)

    with st.container(horizontal=True, vertical_alignment="bottom"):
        show("Tau, with the bonus", f"{counts.tau:.2f}", "tau")
        show("Accepted a round, without", f"{counts.mean_accepted:.2f}", "mean accepted")
        show("Node yield", percent(counts.node_yield, 1), "node yield")
        show("Rounds", f"{counts.rounds:,}", "rounds")
        show("Output tokens", f"{counts.tokens:,}", "tokens")
        show("Tokens/s", per_second(counts.speed.tokens_per_second), "tokens/s")
        if is_plain:
            show("Against plain", "-", ITSELF)
        else:
            show("Against plain", "-" if counts.speedup is None else f"{counts.speedup:.2f}×", "speedup")
    origin_badge("measured")
    for sentence in remarks(counts):
        st.text(sentence)
    if counts.expected is not None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(f"From the recorded probabilities, {counts.expected:.2f} accepted a round were to be expected; "
                    f"{counts.mean_accepted:.2f} came.", help=DEFINITIONS["expected"])
            origin_badge("estimated")


def per_second(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def remarks(counts: Summary) -> list[str]:
    """What a reader must know of these numbers."""
    found = [f"This recording contradicts itself: {problem}." for problem in counts.broken]
    if counts.reasons.get("unfinished"):
        found.append("A run has no end record, because it was cut off or still runs: its rounds are counted, its speed "
                     "is not known.")
    if counts.undrafted_rounds:
        found.append(f"{counts.undrafted_rounds:,} of {counts.rounds:,} rounds drafted nothing and wrote one token, as "
                     "plain decoding does. They count in tau.")
    if counts.discarded:
        found.append(f"{count(counts.discarded, 'token')} of the rounds lay after the text's end and "
                     f"{'counts' if counts.discarded == 1 else 'count'} nowhere.")
    return found
