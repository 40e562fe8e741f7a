"""One output position in all runs: a scrubber, the tree that wrote the token in each, and who wrote all the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from app_pages.compare.strip import strip
from app_pages.record.words import plain
from app_pages.shared.look import theme
from app_pages.shared.recording import Opened, show_in_tree
from treegraft.analysis.align import Written
from treegraft.analysis.text import PREFILL
from treegraft.trace import Run
from treegraft.view.compare_strip import said, strip_view
from treegraft.view.compare_words import ending
from treegraft.view.model import WINDOW_ROUNDS, run_view
from treegraft.view.player import Place, player, wanted_round

POSITION = "compare position"


@dataclass(frozen=True)
class Side:
    """One run of a comparison."""

    opened: Opened
    title: str
    written: Sequence[Written]

    @property
    def run(self) -> Run:
        return self.opened.run


@st.cache_resource(max_entries=32, show_spinner="Drawing the trees …")
def view_of(_run: Run, name: str, first: int) -> dict:
    return run_view(_run, first)


def choose_position(sides: Sequence[Side]) -> int:
    """The output position that all runs are shown at; the address holds it, too."""
    last = max(len(side.written) for side in sides) - 1
    linked = st.query_params.get("position", "")
    start = int(linked) if linked.isdecimal() and len(linked) < 10 else min(1, last)
    st.session_state[POSITION] = min(max(st.session_state.get(POSITION, start), 0), max(last, 0))
    if last > 0:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.slider("Output position", 0, last, key=POSITION, width="stretch",
                      help="Counts the tokens of the answer from 0. All trees go to the round that wrote this one.")
            with st.container(horizontal=True, width="content"):
                st.button("Previous token", key="previous token", on_click=move, args=(-1, last), shortcut="Left")
                st.button("Next token", key="next token", on_click=move, args=(1, last), shortcut="Right")
    st.query_params["position"] = str(st.session_state[POSITION])
    return st.session_state[POSITION]


def move(step: int, last: int) -> None:
    go(min(max(st.session_state[POSITION] + step, 0), last))


def go(position: int) -> None:
    st.session_state[POSITION] = position


def show_trees(sides: Sequence[Side]) -> None:
    """The scrubber, the strip, and the trees in rows of two."""
    position = choose_position(sides)
    view = strip_view([side.run for side in sides], [side.written for side in sides],
                      [side.title for side in sides], position, theme())
    strip(view, position, go)
    for start in range(0, len(sides), 2):
        for place, column in enumerate(st.columns(2), start=start):
            if place < len(sides):
                with column:
                    show_tree(sides[place], position, f"compare player {place}")


def show_tree(side: Side, position: int, key: str) -> None:
    """The round of one run that wrote the token, the token marked."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(side.title)}**", width="stretch")
        if side.run.rounds and st.button("Open in Tree", key=f"{key} open", type="tertiary"):
            at = place_of(side, position)
            show_in_tree(side.opened, at.round, at.event, at.node)
    if position < len(side.written):
        st.text(said(side.run, side.written[position], position))
    else:
        written = len(side.written)
        st.text(f"This text {ending(side.run)} after {written} {'token' if written == 1 else 'tokens'}"
                + ("; its last round is shown." if side.run.rounds else "."))
    if not side.run.rounds:
        st.info("This recording has no rounds, so there is no tree to draw. Choose another one, or record it again.")
        return
    at = place_of(side, position)
    name = side.opened.key
    player(view_of(side.run, name, first_round(side, at.round, position, key)), name=name, go=at,
           wish=f"{name}/{position}", compact=True, key=key)


def place_of(side: Side, position: int) -> Place:
    """Where the player goes for a position: the node that holds the token, in the round that wrote it."""
    if position >= len(side.written):
        return Place(len(side.run.rounds) - 1)
    one = side.written[position]
    return Place(0, None, 0) if one.round == PREFILL else Place(one.round, None, one.node)


def first_round(side: Side, round: int, position: int, key: str) -> int:
    """The first round of the window that the player gets: one that it asked for, until the position moves on."""
    asked = wanted_round(side.opened.key, key)
    before = st.session_state.get(f"{key} window")
    if asked is not None and (before is None or asked != before["asked"] or position == before["position"]):
        first = asked
    else:
        first = 0 if len(side.run.rounds) <= WINDOW_ROUNDS else max(round // 32 * 32 - 8, 0)
    st.session_state[f"{key} window"] = {"asked": asked, "position": position}
    return first
