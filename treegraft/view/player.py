"""The player in a Streamlit page: rounds as trees, scrubbed through event by event in the browser.

Moving about costs no run of the script. The page hears of it only when the player needs rounds that it does not have,
and, if the page follows, when the user has come to rest at a place.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import streamlit as st

from treegraft.view.web import HTML, script, styles

_component = st.components.v2.component("treegraft.player", html=HTML, css=styles(), js=script("component"))


@dataclass(frozen=True)
class Place:
    """Where the player stands, or is to go: a round, one of its events (None: the last that matters), and the chosen
    node (a number, `bonus`, or None)."""

    round: int
    event: int | None = None
    node: int | str | None = None


def player(view: dict[str, Any], *, name: str, link: dict[str, str | None] | None = None, follow: bool = False,
           go: Place | None = None, wish: str | int = 0, compact: bool = False, key: str = "player") -> Place | None:
    """Draw `view` (a `model.run_view`) and return the place that the user came to rest at, if the page follows.

    `name` says which run it is: with another name the player starts afresh. `link` goes into the address beside the
    place (a `None` in it takes a parameter out); without it the player neither reads nor writes the address. The player
    goes to the place `go` whenever `wish` has changed. A `compact` one is for a place beside others: it shows the tree,
    its events and words alone, and hears keys only while it has the focus. A window that the player asks for is in
    `wanted_round(name, key)` in the next run of the script.
    """
    data = {"view": view, "key": name, "link": link, "follow": follow, "compact": compact,
            "go": {**asdict(go), "wish": wish} if go else None}
    result = _component(key=key, data=packed(data), on_at_change=_nothing, on_window_change=_nothing)
    return _place(result.at, name)


def packed(data: dict[str, Any]) -> dict[str, str]:
    """Each entry as JSON: in anything but texts Streamlit looks for tables, by pandas and pyarrow, and the
    first visitor would wait for them."""
    return {name: msgspec.json.encode(value).decode() for name, value in data.items()}


def wanted_round(name: str, key: str = "player") -> int | None:
    """The first round of the window that the player asked for, None if it has asked for none."""
    wanted = (st.session_state.get(key) or {}).get("window") or {}
    first = wanted.get("first")
    return first if wanted.get("key") == name and isinstance(first, int) else None


def fulfilled(name: str, key: str = "player") -> str | int | None:
    """The last `wish` that the player of the run `name` went to, as far as it is known."""
    at = (st.session_state.get(key) or {}).get("at") or {}
    return at.get("wish") if at.get("key") == name else None


def _nothing() -> None:
    """Streamlit keeps only values that have a callback."""


def _place(at: Any, name: str) -> Place | None:
    if not isinstance(at, dict) or at.get("key") != name or not isinstance(at.get("round"), int):
        return None
    event, node = at.get("event"), at.get("node")
    return Place(at["round"], event if isinstance(event, int) else 0,
                 node if isinstance(node, int) or node == "bonus" else None)
