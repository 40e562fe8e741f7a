"""The Acceptance page's parts: length, where it stops, who proposed it, time, and the same numbers elsewhere."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app_pages.acceptance.counted import counted, drafters, key_of, kinds
from app_pages.shared.charts import draw
from app_pages.shared.look import theme
from app_pages.shared.recording import Opened
from treegraft.analysis.aliases import aliases
from treegraft.analysis.metrics import DEFINITIONS
from treegraft.analysis.token_kinds import KINDS
from treegraft.view.acceptance_charts import elsewhere, length, origins, stops, time
from treegraft.view.labels import name


def nothing_drafted() -> None:
    st.text("No round of this run drafted anything: it is plain decoding, one token a round. Open a recording with a "
            "drafter, or record one on the Record page.")


def length_part(opened: Opened, together: bool) -> None:
    """How many tokens rounds accept."""
    found = counted(opened, together)
    if not found.summary.drafted:
        nothing_drafted()
        return
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Accepted tokens", help=DEFINITIONS["histogram"])
        draw(length.accepted_histogram(found, theme()), f"histogram {key_of(opened, together)}", opened)
    with right:
        st.subheader("By draft length", help="The depth of the tree that the target verified. A round cannot accept "
                                             "more than that, so short drafts and rejected drafts are told apart.")
        draw(length.draft_lengths(found, theme()), f"lengths {key_of(opened, together)}", opened)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Along the text", help="Rounds by the place in the output where they start. Where all rounds "
                                            "together show a trend, a line is fitted to them by least squares. Rounds "
                                            "that the text's end cut are left out.")
        if any(row.bonus for row in found.rounds):
            draw(length.positions(found, theme()), f"positions {key_of(opened, together)}", opened)
        else:
            st.text("The end of the text cut the only round, so it says nothing on drafts.")
    if length.has_turns(found):
        with right:
            st.subheader("By turn", help="Turns of the conversation, counted from 0. " + DEFINITIONS["tau"])
            draw(length.turns(found, theme()), f"turns {key_of(opened, together)}", opened)


def stops_part(opened: Opened, together: bool) -> None:
    """Where acceptance stops."""
    found = counted(opened, together)
    if not found.summary.drafted:
        nothing_drafted()
        return
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("By depth", help=(
            f"Marginal. {DEFINITIONS['marginal']}\n\nConditional. {DEFINITIONS['conditional']}\n\n"
            f"Had drafted so deep. {DEFINITIONS['proposed']}"))
        draw(stops.depths(found, theme()), f"depths {key_of(opened, together)}", opened)
    with right:
        st.subheader("By kind of token", help=(
            "Judged: drafted nodes that the target accepted or rejected; nodes below a rejected one were not judged. "
            "Of siblings at most one can be accepted. Tokens that rounds wrote: accepted ones and the bonus."))
        draw(stops.token_kinds(kinds(opened, together), theme()), f"kinds {key_of(opened, together)}", opened)
    with st.expander("What makes a token one of each kind"):
        st.dataframe(pd.DataFrame(KINDS.items(), columns=["Kind", "A token is of this kind if it"]), hide_index=True)
        st.caption("The first that fits counts, in the order other, white space, non-Latin, code, word start or "
                   "continuation, digit, punctuation.")


def origins_part(opened: Opened, together: bool) -> None:
    """Which drafter proposed what was accepted, and how far its probabilities hold."""
    found = counted(opened, together)
    if not found.summary.drafted:
        nothing_drafted()
        return
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("By drafter", help=f"Origin. {DEFINITIONS['origin']}\n\nNode yield. {DEFINITIONS['node yield']}")
        made = origins.drafters(found, theme())
        if len(found.summary.origins) > 1:
            draw(made, f"origins {key_of(opened, together)}", opened)
        else:
            st.text(made.reading)
            st.dataframe(pd.DataFrame(made.rows[0].items(), columns=["Count", "Value"]).astype(str), hide_index=True)
    with right:
        calibration(opened, together)


def calibration(opened: Opened, together: bool) -> None:
    """One drafter's probabilities against what was accepted."""
    st.subheader("Calibration", help=(
        "Counted are nodes that the target accepted or rejected, each with the probability q after its parent that the "
        "drafter gave it last. They are sorted by q into bins of equal counts. Pruned and unreached nodes got no "
        "verdict, so this says how sure the drafter may be of the nodes that it brought that far. p is the target's "
        "own probability of the same tokens, as the run draws. Both axes are stretched near 0 (square roots)."))
    found = drafters(opened, together)
    if not found:
        st.text("No drafter of this run gave probabilities: retrieved and copied tokens come without. Open a recording "
                "with an lm or eagle3 drafter.")
        return
    chosen = st.segmented_control("Drafter", range(len(found)), default=0, required=True, label_visibility="collapsed",
                                  format_func=lambda number: name(found[number].drafter),
                                  key=f"drafter {key_of(opened, together)}") if len(found) > 1 else 0
    one = found[chosen]
    draw(origins.calibration(one, theme()), f"calibration {chosen} {key_of(opened, together)}", opened)
    if one.without:
        st.caption(f"{one.without:,} judged nodes that it proposed first have no probability of its own and are left "
                   "out.")


def time_part(opened: Opened, together: bool) -> None:
    """Where the time goes."""
    found = counted(opened, together)
    if not any(found.summary.phases.values()):
        st.text("This recording holds no times, so there is nothing to show; treegraft record measures them.")
        return
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Each round", help=DEFINITIONS["phases"])
        if any(row.times for row in found.rounds):
            draw(time.round_times(found, theme()), f"times {key_of(opened, together)}", opened)
        else:
            st.text("The rounds of this recording have no times; treegraft record measures them.")
    with right:
        st.subheader("All together", help=f"{DEFINITIONS['phases']} The recorder's own time comes on top.")
        draw(time.time_shares(found.summary, theme()), f"shares {key_of(opened, together)}", opened)
    if found.summary.models:
        st.subheader("Model passes in the rounds", help=DEFINITIONS["forwards"])
        st.dataframe(pd.DataFrame(time.forward_rows(found.summary)), hide_index=True)


def elsewhere_part(opened: Opened, together: bool) -> None:
    """The same numbers in other engines' words."""
    st.text("Engines and papers count differently: with or without the bonus, the root as a drafted token or not, of "
            "all rounds or of those that got so far. These are this run's numbers as each of them would compute it.")
    for system, rows in elsewhere.tables(aliases(counted(opened, together).summary)).items():
        st.subheader(system)
        st.html(elsewhere.table_html(rows, theme()))
