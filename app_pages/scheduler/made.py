"""The Scheduler page's decisions: all of a run as a grid, and one of them taken apart."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app_pages.shared.charts import chart, customdata, origin_badge
from app_pages.shared.glossary import explain
from app_pages.shared.look import theme
from app_pages.shared.recording import Opened, show_in_tree
from treegraft.analysis.attribution import attribution
from treegraft.analysis.decisions import Decision, frame, layers_of
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import scheduler_of
from treegraft.scheduler.network import Scheduler
from treegraft.view.labels import name
from treegraft.view.scheduler_charts import CALL, SKIP, contribution_bars, decision_grid
from treegraft.view.scheduler_words import attributed, decided, feature_rows

MOST_ROUNDS = 24
"""Rounds that the grid shows at once."""


def decisions_part(opened: Opened, found: Sequence[Decision]) -> None:
    """The grid, and the decision that is chosen in it or by the controls below it."""
    start(opened, found)
    grid = st.container()
    chosen = choose(opened, found)
    with grid:
        draw_grid(opened, found, chosen)
    if chosen is None:
        st.text("Nothing was decided in this round: it drafted nothing.")
    else:
        one_decision(opened, chosen)


def keys(opened: Opened) -> tuple[str, str]:
    """Of the chosen round and layer in the session."""
    return f"decision round of {opened.key}", f"decision layer of {opened.key}"


def start(opened: Opened, found: Sequence[Decision]) -> None:
    """Choose the decision that the address names, else the first, once."""
    for key, part, default in zip(keys(opened), ("round", "layer"), (found[0].round, found[0].layer), strict=True):
        linked = st.query_params.get(part, "")
        known = {getattr(one, part) for one in found}
        number = int(linked) if linked.isdecimal() and len(linked) < 10 else default
        st.session_state.setdefault(key, number if number in known else default)


def choose(opened: Opened, found: Sequence[Decision]) -> Decision | None:
    """The controls: the round and the layer of the shown decision."""
    round_key, layer_key = keys(opened)
    last = len(opened.run.records) - 1
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if last > 0:
            st.slider("Round", 0, last, key=round_key, width=420)
        here = {one.layer: one for one in found if one.round == st.session_state[round_key]}
        if not here:
            return None
        if st.session_state.get(layer_key) not in here:
            st.session_state[layer_key] = min(here)
        st.segmented_control("Layer", sorted(here), key=layer_key, required=True,
                             format_func=lambda layer: f"{layer} {CALL if here[layer].call else SKIP}")
    return here[st.session_state[layer_key]]


def draw_grid(opened: Opened, found: Sequence[Decision], chosen: Decision | None) -> None:
    """The decisions of the rounds around the chosen one."""
    round_key, layer_key = keys(opened)
    key = f"decision grid of {opened.key}"

    def keep() -> None:
        points = st.session_state[key].selection.points
        if points:
            round, layer = str(customdata(points[0])).split("/")
            st.session_state[round_key], st.session_state[layer_key] = int(round), int(layer)

    first = st.session_state[round_key] // MOST_ROUNDS * MOST_ROUNDS
    shown = [one for one in found if first <= one.round < first + MOST_ROUNDS]
    total = len(opened.run.records)
    reading = (f"{CALL} a call, {SKIP} a skip. Colour: how far the scheduler's margin, the milliseconds that it "
               "expects a call to save, is above (orange) or below (blue) the threshold. An empty cell: the round had "
               "ended its drafting before that layer.")
    if any(one.margin is None for one in shown):
        reading += " Cells without colour have no margin: no scheduler was asked."
    if total > MOST_ROUNDS:
        reading += f" Shown: rounds {first} to {min(total, first + MOST_ROUNDS) - 1} of {total}."
    origin_badge("measured")
    st.plotly_chart(decision_grid(shown, layers_of(opened.run, found), theme(), chosen), key=key, alt=reading,
                    theme=None, config={"displayModeBar": False}, on_select=keep, selection_mode="points")
    with st.container(horizontal=True, vertical_alignment="top"):
        explain(reading)
        with st.popover("Table", icon=":material/table:"):
            st.dataframe(frame(found).assign(rule=[name(one.rule) for one in found]), hide_index=True,
                         width="content")


def one_decision(opened: Opened, one: Decision) -> None:
    """What was decided and what moved the margin."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(f"Round {one.round}, layer {one.layer}")
        if st.button("See it in the tree", icon=":material/account_tree:", key="decision in tree"):
            show_in_tree(opened, one.round, one.event)
    st.text(decided(one))
    if not one.features:
        st.text("What the scheduler looks at was not recorded: the run had no clock. Record with --set "
                "schedule=scheduler to have it.")
        return
    try:
        scheduler = scheduler_of(opened.run)
        if scheduler:
            contributions(opened, one, scheduler)
            return
        problem = "The trace has no scheduler, so nothing can be said on what these features add to a margin."
    except (NotRecorded, ValueError) as error:
        problem = f"What the features add to the margin is not known: {error}."
    st.text(problem)
    st.dataframe(pd.DataFrame(feature_rows(one.features)), hide_index=True)


def contributions(opened: Opened, one: Decision, scheduler: Scheduler) -> None:
    """What each feature adds to the margin. Errors: `ValueError` where that cannot be computed."""
    found = attribution(scheduler, one.features)
    origin_badge("replayed exactly")
    chart(contribution_bars(found, one.features, theme()), key=f"contributions of {opened.key}",
          reading=attributed(found), table=pd.DataFrame(feature_rows(one.features, scheduler, found)))
    if one.margin is None or abs(found.margin - one.margin) > 1e-6 * max(1, abs(found.margin)):
        st.text("The network in the trace is not the one that made this margin: it gives another for these features.")
    with st.expander("How the contributions are computed"):
        st.markdown(
            "By integrated gradients: from the average of the scheduler's training data to this decision on a straight "
            "line in scaled features, a feature's contribution is its step times the mean slope of the margin along "
            "the way. The network is linear in pieces, so the mean is exact, and the contributions add up to this "
            "margin minus that of the average. They say how the network computes, not what a call really saves; "
            "features that move together share their effect.")
