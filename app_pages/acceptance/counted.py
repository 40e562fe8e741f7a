"""What the Acceptance page counts, worked out once for all sessions."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app_pages.shared.recording import Opened
from treegraft.analysis.reached import Judged, Place, judged
from treegraft.analysis.reliability import Reliability, reliability
from treegraft.analysis.token_kinds import KindRow, by_kind
from treegraft.trace import Run


def counted(opened: Opened, together: bool) -> Judged:
    """The rows of the shown run, or of all runs of its recording; runs are numbered as in the recording."""
    return judged_of(opened.trace.runs if together else [opened.run], key_of(opened, together),
                     0 if together else opened.number)


def kinds(opened: Opened, together: bool) -> list[KindRow]:
    return kinds_of(opened.trace.runs, counted(opened, together), key_of(opened, together))


def drafters(opened: Opened, together: bool) -> list[Reliability]:
    return drafters_of(counted(opened, together), key_of(opened, together))


def key_of(opened: Opened, together: bool) -> str:
    """Names what is counted, for caches and widgets."""
    return f"{opened.key}/all" if together else opened.key


@st.cache_resource(max_entries=8, show_spinner="Counting what was accepted …")
def judged_of(_runs: list[Run], key: str, first: int) -> Judged:
    found = judged(_runs)
    if first:
        found.rounds = [replace(row, place=(first, row.place[1])) for row in found.rounds]
        found.nodes = [replace(row, place=(first, row.place[1])) for row in found.nodes]
    return found


@st.cache_resource(max_entries=8, show_spinner=False)
def kinds_of(_runs: list[Run], _found: Judged, key: str) -> list[KindRow]:
    def piece(place: Place, token: int) -> bytes | None:
        return _runs[place[0]].pieces.get(token)

    return by_kind(_found, piece)


@st.cache_resource(max_entries=8, show_spinner=False)
def drafters_of(_found: Judged, key: str) -> list[Reliability]:
    return reliability(_found.nodes)
