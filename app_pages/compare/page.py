"""Compare page: recordings of one prompt side by side, and results of `treegraft compare` on many prompts."""

from __future__ import annotations

import streamlit as st

from app_pages.compare import differences
from app_pages.compare.many import show_many
from app_pages.compare.partners import choose, opened
from app_pages.compare.trees import Side, show_trees
from app_pages.shared.recording import Opened, fragment, opened_recording, put_in_address, refuse
from treegraft.analysis.align import Written, writers
from treegraft.trace import Run, TraceError

VIEWS = {"recordings": "Recordings of one prompt", "many": "Many prompts"}

ALONE = """**Choose one or more recordings to compare this one with**, above.

The same prompt recorded with another policy says most. Make one on the **Record** page, or in a terminal with
`treegraft record --policy NAME --prompt TEXT`, or open a trace file above: files that you open stay for this visit."""


@st.cache_resource(max_entries=16, show_spinner="Reading the recording …")
def writers_of(_run: Run, key: str) -> list[Written]:
    return writers(_run)


def choose_view() -> str:
    """Which part of the page is shown; the address holds it, too."""
    linked = "many" if "comparison" in st.query_params else "recordings"
    st.session_state.setdefault("compare view", linked)
    return st.segmented_control("What to compare", list(VIEWS), format_func=VIEWS.get, key="compare view",
                                required=True, label_visibility="collapsed")


@fragment
def show(sides: list[Side]) -> None:
    """All of a comparison; only this runs again when the position moves."""
    if not any(side.written for side in sides):
        st.info("None of these recordings has any text yet. Choose others, or record them again.")
        return
    show_trees(sides)
    differences.show_stretches(sides)
    differences.show_texts(sides)
    differences.show_numbers(sides)
    differences.show_progress(sides)


def show_recordings(first: Opened) -> None:
    offers = choose(first)
    if len(offers) == 1:
        st.info(ALONE)
        return
    chosen = [first, *(opened(offer) for offer in offers[1:])]
    show([Side(one, offer.title, writers_of(one.run, one.key)) for one, offer in zip(chosen, offers, strict=True)])


if choose_view() == "many":
    show_many()
else:
    recording = opened_recording()
    put_in_address(recording)
    st.query_params.pop("comparison", None)
    try:
        show_recordings(recording)
    except TraceError as error:
        refuse(error)
