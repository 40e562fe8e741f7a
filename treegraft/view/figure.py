"""A round as a Plotly figure, from the same view-model as the player: for notebooks, tables and still pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import plotly.graph_objects as go

from treegraft.view.arrange import ROW_UNITS
from treegraft.view.model import FATES
from treegraft.view.palette import COLORS
from treegraft.view.words import bare_score, level, prob

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "hexagon", "triangle-down")
"""Marker of each drafter, as in the player."""

ROW_HEIGHT = 15
LEAST_HEIGHT = 320
"""Of the figure, in pixels."""

CURVE = 12
"""Points of a curved edge."""


def tree_figure(view: dict[str, Any], place: int = 0, theme: str = "light") -> go.Figure:
    """The drawn nodes of round number `place` of `view`, depth from left to right, as it ended."""
    round, colors = view["rounds"][place], COLORS[theme]
    drawn = {node: row / ROW_UNITS for node, row in enumerate(round["rows"]) if row is not None}
    depth = _depths(round["parent"])
    figure = go.Figure()
    for accepted in (False, True):
        figure.add_trace(_edges(round, drawn, depth, accepted, colors["accepted" if accepted else "pruned"]))
    for drafter in view["drafters"]:
        if trace := _grafts(round, drawn, depth, drafter, colors):
            figure.add_trace(trace)
    for fate, letter in FATES.items():
        nodes = [node for node in drawn if round["fate"][node] == letter]
        if nodes:
            figure.add_trace(_nodes(view, round, nodes, drawn, depth, fate, colors))
    figure.add_traces(_bonus(view, round, drawn, depth, colors["bonus"]))
    if round["wall"]:
        _, deepest, stage = round["wall"]
        figure.add_vline(deepest + 0.5, line={"color": colors["rejected"], "width": 1.4, "dash": "dash"},
                         annotation={"text": _text(f"drafting stopped: {stage}" if stage else "drafting stopped"),
                                     "font": {"color": colors["rejected"]}})
    rows = max(drawn.values(), default=0) + 1
    figure.update_layout(
        height=max(LEAST_HEIGHT, ROW_HEIGHT * rows + 90), margin={"l": 12, "r": 12, "t": 12, "b": 12},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"color": colors["ink"]},
        legend={"orientation": "h", "y": -0.04}, xaxis={"visible": False},
        yaxis={"visible": False, "autorange": "reversed"}, hoverlabel={"align": "left"})
    return figure


def _depths(parents: list[int]) -> list[int]:
    depth = [0]
    for parent in parents[1:]:
        depth.append(depth[parent] + 1)
    return depth


def _edges(round: dict[str, Any], drawn: dict[int, float], depth: list[int], accepted: bool, color: str) -> go.Scatter:
    """All edges to accepted nodes, or all others but grafts, as one broken line."""
    grafted = set(round["grafted"])
    nodes = [node for node in drawn if node and (round["fate"][node] in "ad") == accepted
             and (accepted or node not in grafted)]
    return _line(round, drawn, depth, nodes, showlegend=False, line={"color": color, "width": 3.5 if accepted else 0.8})


def _grafts(round: dict[str, Any], drawn: dict[int, float], depth: list[int], drafter: dict[str, Any],
            colors: dict[str, str]) -> go.Scatter | None:
    """The edges by which a drafter continued branches of others, those on the accepted path drawn over it."""
    nodes = [node for node in round["grafted"] if node in drawn and round["origin"][node] == drafter["id"]]
    line = {"color": colors[f"graft{drafter['id'] % 2}"], "width": 1.6, "dash": "dash"}
    return _line(round, drawn, depth, nodes, name=_text(f"grafted by {drafter['name']}"), line=line) if nodes else None


def _line(round: dict[str, Any], drawn: dict[int, float], depth: list[int], nodes: list[int],
          **options: Any) -> go.Scatter:
    """The edges to `nodes` as one broken line."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for node in nodes:
        for x, y in _curve(depth[node] - 1, drawn[round["parent"][node]], depth[node], drawn[node]):
            xs.append(x)
            ys.append(y)
        xs.append(None)
        ys.append(None)
    return go.Scatter(x=xs, y=ys, mode="lines", hoverinfo="skip", **options)


def _curve(x0: float, y0: float, x1: float, y1: float) -> Iterator[tuple[float, float]]:
    """An S-curve from one point to the other, level at both ends."""
    for step in range(CURVE + 1):
        t = step / CURVE
        yield x0 + (x1 - x0) * t, y0 + (y1 - y0) * t * t * (3 - 2 * t)


def _nodes(view: dict[str, Any], round: dict[str, Any], nodes: list[int], drawn: dict[int, float], depth: list[int],
           fate: str, colors: dict[str, str]) -> go.Scatter:
    """The nodes of one fate; root and accepted ones carry their text."""
    names = [_text(view["pieces"][round["token"][node]]) for node in nodes]
    color = colors["ink" if fate == "root" else fate]
    return go.Scatter(
        x=[depth[node] for node in nodes], y=[drawn[node] for node in nodes], name=fate, customdata=nodes,
        mode="markers+text" if fate in ("root", "accepted", "discarded") else "markers",
        text=names, textposition="top center",
        hovertext=[f"{name}<br>{_numbers(view, round, node)}<br>{fate}"
                   for name, node in zip(names, nodes, strict=True)],
        hoverinfo="text",
        marker=_marker([round["origin"][node] for node in nodes], fate, color))


def _bonus(view: dict[str, Any], round: dict[str, Any], drawn: dict[int, float], depth: list[int],
           color: str) -> list[go.Scatter]:
    """The target's own token behind the accepted path, and the edge to it."""
    bonus = round["bonus"]
    parent, row, name = bonus["parent"], bonus["row"] / ROW_UNITS, _text(view["pieces"][bonus["token"]])
    x, y = zip(*_curve(depth[parent], drawn[parent], depth[parent] + 1, row), strict=True)
    return [go.Scatter(x=x, y=y, mode="lines", hoverinfo="skip", showlegend=False,
                       line={"color": color, "width": 1.6, "dash": "dot"}),
            go.Scatter(x=[depth[parent] + 1], y=[row], name="target's own", mode="markers+text", text=[name],
                       textposition="top center", hovertext=f"{name}<br>the target's own token", hoverinfo="text",
                       marker={"symbol": "circle-open-dot", "size": 11, "color": color})]


def _marker(drafters: list[int], fate: str, color: str) -> dict[str, Any]:
    """Shapes say who drafted a node; its fate is told by size, a hollow or a light middle as well as by colour."""
    hollow = fate in ("pruned", "discarded")
    ending = "-open" if hollow else "-open-dot" if fate == "rejected" else ""
    return {"symbol": [SYMBOLS[max(drafter, 0) % len(SYMBOLS)] + ending for drafter in drafters],
            "size": 11 if fate in ("root", "accepted") else 5 if hollow else 8, "color": color}


def _numbers(view: dict[str, Any], round: dict[str, Any], node: int) -> str:
    known = {"q": round["q"][node], "p": round["logprob"][node]}
    numbers = [f"{name} {_text(prob(units))}" for name, units in known.items() if units is not None]
    changes = [change for change in round["changes"] if change[1] == node]
    if changes:
        numbers.append(f"score {bare_score(changes[0][2])} \u2192 {bare_score(changes[-1][3])}")
    if node in round["row"]:
        above = _text(view["pieces"][round["token"][round["parent"][node]]])
        numbers.append(f"rank {round['row'][node] + 1} in the row of {above}")
    if node in round["merged"]:
        numbers.append("drafted and retrieved")
    if node and node in round["chances"]:
        numbers.append(f"chance {level(round['chances'][node])}")
    return ", ".join(numbers)


def _text(label: str) -> str:
    """Plotly reads some HTML in texts; these characters keep it from seeing any."""
    return label.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
