"""The browser's side of the views: plain scripts and styles, joined as they are, without a build."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

from treegraft.view.palette import css_variables

HTML = '<div class="tg-root"></div>'
"""What the script draws into."""

PARTS = ("base", "marks", "arrange", "stages", "canvas", "scene", "text", "tracks", "words", "eventlist", "search",
         "finder", "table", "ribbon", "sheet", "acceptsheet", "stagesheet", "save", "keys", "place", "player")


@cache
def script(entry: Literal["component", "page", "live"]) -> str:
    """One JavaScript module: the player, and the part that starts it in a component or on a page of its own."""
    return "\n".join(_read(f"{part}.js") for part in (*PARTS, entry))


@cache
def styles() -> str:
    return _read("player.css") + css_variables()


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
