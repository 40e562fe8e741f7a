"""What the panels below the player are about, and how they lead the player."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import streamlit as st

from app_pages.shared.recording import Opened
from treegraft.trace import Run, TracedRound
from treegraft.view.labels import label
from treegraft.view.player import Place, fulfilled


@dataclass(frozen=True)
class Shown:
    """The recording, the player's view of it, and the place where the player stands: the round's place in the view, an
    event (None: not known yet), and the chosen node (a number, `bonus`, or None)."""

    opened: Opened
    view: dict[str, Any]
    number: int
    event: int | None
    node: int | str | None

    @property
    def run(self) -> Run:
        return self.opened.run

    @property
    def round(self) -> TracedRound:
        return self.run.rounds[self.view["first"] + self.number]

    def token(self, token: int) -> str:
        """The display text of a token id."""
        return label(self.run.pieces.get(token))


def shown_at(opened: Opened, view: dict[str, Any], place: Place | None) -> Shown:
    """The nearest place that the view has; before the player has told where it is, that of the address."""
    if place is None:
        linked = st.query_params.get("round", "")
        place = Place(int(linked) if linked.isdecimal() and len(linked) < 10 else 0)
    number = min(max(place.round - view["first"], 0), max(len(view["rounds"]) - 1, 0))
    node = place.node
    if isinstance(node, int) and view["rounds"] and node >= len(view["rounds"][number]["token"]):
        node = None
    return Shown(opened, view, number, place.event, node)


def lead(key: str, place: Place) -> None:
    """Let the player of the run `key` go to a place, when the script runs next."""
    st.session_state.lead = (key, place, uuid4().hex)


def wanted_place(key: str) -> tuple[Place | None, str]:
    """Where the player of the run `key` is to go, and the wish's name, until it has told that it went: the run of the
    script that a click starts may be cut short by another one, so a wish that was only sent may be lost."""
    wanted, place, wish = st.session_state.get("lead", ("", None, ""))
    if wanted != key or fulfilled(key) == wish:
        st.session_state.pop("lead", None)
        return None, ""
    return place, wish


def lead_to(shown: Shown, name: str, place: Place, *, key: str, **options: Any) -> None:
    """A button that leads the player to a place."""
    st.button(name, key=key, on_click=lead, args=(shown.opened.key, place), **options)
