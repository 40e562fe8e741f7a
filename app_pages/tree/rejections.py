"""Panel: which tokens the target keeps rejecting, and what it chooses in their place."""

from __future__ import annotations

import streamlit as st

from app_pages.shared.charts import origin_badge
from app_pages.tree.shown import Shown, lead_to
from treegraft.analysis.rejections import Pair, Rejection, pairs, rejections
from treegraft.trace import Run
from treegraft.view.labels import name
from treegraft.view.player import Place
from treegraft.view.rejection_tables import HELP, pair_table

MOST_ROUNDS = 24
"""Rounds of a pair that are offered at once."""

BEST, ALL = "The best guess", "Every rejected token"
EVERYONE = "All drafters"
NUMBERS = {"Gap": "%.2f", "p of drafted": "%.2g", "p of chosen": "%.2g"}


@st.cache_resource(max_entries=16, show_spinner="Reading the rounds …")
def rejections_of(_run: Run, key: str) -> list[Rejection]:
    return rejections(_run)


@st.cache_resource(max_entries=32, show_spinner=False)
def pairs_of(_run: Run, key: str, best: bool, drafter: int | None) -> list[Pair]:
    found = rejections_of(_run, key)
    return pairs(_run, [one for one in found if (one.best or not best) and drafter in (None, one.drafter)])


def show_rejections(shown: Shown) -> None:
    run, key = shown.run, shown.opened.key
    if not rejections_of(run, key):
        st.info("No drafted token was rejected in this run: there is nothing to list. Plain decoding drafts nothing.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = st.segmented_control("Count", [BEST, ALL], default=BEST, required=True, key="rejections_kind",
                                    help="At each place that the target reached: the drafted token with the highest "
                                         "score if the target chose another one, or all that it did not choose.")
        drafters = {drafter.id: name(drafter.name or drafter.kind) for drafter in run.header.drafters}
        drafter = st.selectbox("Drafter", [None, *drafters], format_func=lambda id: drafters.get(id, EVERYONE),
                               key="rejections_drafter", width=220)
        origin_badge("measured")
    found = pairs_of(run, key, kind == BEST, drafter)
    if not found:
        st.info("The target chose this drafter's best guess wherever it had one. Count every rejected token, or choose "
                "all drafters.")
        return
    config = {column: st.column_config.NumberColumn(format=NUMBERS[column], help=words) if column in NUMBERS
              else st.column_config.Column(help=words) for column, words in HELP.items()}
    picked = st.dataframe(pair_table(run, found), hide_index=True, column_config=config, on_select="rerun",
                          selection_mode="single-row", height=min(36 * len(found) + 40, 330),
                          key=f"rejections of {key} {kind} {drafter}",
                          alt="Pairs of rejected and chosen tokens with their counts")
    rows = [row for row in picked.selection.rows if row < len(found)]
    offer(shown, found[rows[0] if rows else 0])


def offer(shown: Shown, pair: Pair) -> None:
    """The rounds of a pair; a click leads the player to the rejected node."""
    st.text(f"\u201c{shown.token(pair.drafted)}\u201d rejected for \u201c{shown.token(pair.chosen)}\u201d. Choose "
            "another row of the table to see its rounds.")
    with st.container(horizontal=True):
        for one in pair.rejections[:MOST_ROUNDS]:
            lead_to(shown, f"Round {one.round}", Place(one.round, None, one.node),
                    key=f"rejection {one.round} {one.node}", icon=":material/arrow_upward:")
    if pair.count > MOST_ROUNDS:
        st.caption(f"These are the first {MOST_ROUNDS} of {pair.count}.")
