"""The look that all charts of the dashboard share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import plotly.graph_objects as go

from treegraft.view.labels import name
from treegraft.view.palette import COLORS, PAGE

Theme = Literal["light", "dark"]
Figure = go.Figure

SERIES = ("accepted", "rejected", "accent", "discarded", "bonus", "graft1", "graft0", "neutral")
"""Names in the palette of the colours of drafters, phases and other series, in order."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
PATTERNS = ("", "/", ".", "x", "\\", "-", "+", "|")
"""Of lines and bars beside their colours, so that nothing hangs on colour alone."""

FONT = '"Source Sans", sans-serif'
"""That of the app."""

HEIGHT = 300
"""Of a chart, in pixels."""


@dataclass(frozen=True)
class Chart:
    """A figure, what it says in one line of plain text, and the rows of its table.

    `rounds` are the rounds behind each bar or point that has one of its keys as `customdata`; a round is its number, or
    the numbers of its run and of itself."""

    figure: go.Figure
    reading: str
    rows: list[dict[str, Any]]
    rounds: dict[str, Sequence[int | tuple[int, int]]] = field(default_factory=dict)


def styled(figure: go.Figure, theme: Theme, *, x: str, y: str, height: int = HEIGHT) -> go.Figure:
    """The figure in the colours of a theme, on a transparent ground, its axes named; returns it."""
    colors = COLORS[theme]
    grid = {"gridcolor": faded(colors["neutral"], 0.25), "zerolinecolor": faded(colors["neutral"], 0.5),
            "automargin": True}
    figure.update_xaxes(title=x, **grid)
    figure.update_yaxes(title=y, ticklabelstandoff=6, **grid)
    return figure.update_layout(
        template="none", height=height, margin={"l": 8, "r": 8, "t": 28, "b": 8},
        font={"color": colors["ink"], "size": 13, "family": FONT}, paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)", barmode="stack", bargap=0.2,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        hoverlabel={"align": "left", "bgcolor": PAGE[theme], "font": {"color": colors["ink"], "family": FONT}})


def upright(figure: go.Figure, theme: Theme, *, x: str, y: str, height: int = HEIGHT) -> go.Figure:
    """`styled` for upright bars: lines across alone."""
    styled(figure, theme, x=x, y=y, height=height)
    return figure.update_xaxes(showgrid=False, zeroline=False)


def lying(figure: go.Figure, theme: Theme, *, x: str, height: int = HEIGHT) -> go.Figure:
    """`styled` for bars that lie, with their names on the left: lines down alone."""
    styled(figure, theme, x=x, y="", height=height)
    return figure.update_yaxes(showgrid=False, zeroline=False)


def series_color(place: int, theme: Theme) -> str:
    """The colour of series number `place`."""
    return COLORS[theme][SERIES[place % len(SERIES)]]


def pattern(place: int, theme: Theme) -> dict[str, Any]:
    """The marker of bars of series number `place`: a colour, and a pattern in the page's colour over it."""
    return {"color": series_color(place, theme), "line": {"width": 0},
            "pattern": {"shape": PATTERNS[place % len(PATTERNS)], "fillmode": "overlay", "size": 7, "solidity": 0.25,
                        "fgcolor": PAGE[theme]}}


def faded(color: str, opacity: float) -> str:
    """A colour of the palette (#rrggbb) that lets the ground shine through."""
    red, green, blue = (int(color[place:place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def escaped(text: str) -> str:
    """A name for display in a figure. Plotly reads some HTML in texts; these characters keep it from seeing any."""
    return name(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
