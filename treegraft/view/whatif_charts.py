"""Charts of what-ifs: a quantity over the range of one setting, and the expected accepted length over temperature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from treegraft.analysis.temperature import Expected
from treegraft.view.acceptance_charts.say import count
from treegraft.view.charts import Figure, Theme, faded, series_color, styled
from treegraft.view.palette import COLORS
from treegraft.view.scheduler_words import number

KNEE = 0.02
"""The knee is the first point whose value lies within this share of the best one."""


@dataclass(frozen=True)
class Point:
    """What a replay under one value of a setting came to."""

    value: float
    tau: float
    tokens_per_second: float | None


def known(points: Iterable[Point | None], of: str) -> list[Point]:
    """The points whose `of` is known, by value."""
    return sorted((point for point in points if point and getattr(point, of) is not None),
                  key=lambda point: point.value)


def knee(points: Sequence[Point], of: str) -> Point | None:
    """The point with the smallest value of the setting whose `of` is within 2% of the best, None without numbers."""
    return next((point for point in known(points, of) if getattr(point, of) >= near_best(points, of)), None)


def near_best(points: Sequence[Point], of: str) -> float:
    """The least that is within 2% of the best; there is one."""
    return (1 - KNEE) * max(getattr(point, of) for point in known(points, of))


def before_knee(points: Sequence[Point], of: str) -> tuple[float, float] | None:
    """The values before the knee and at it, between which a smaller one may do; None where the knee comes first."""
    turn = knee(points, of)
    smaller = [point.value for point in known(points, of) if turn and point.value < turn.value]
    return (max(smaller), turn.value) if smaller else None


def curve(points: Sequence[Point], of: str, setting: str, now: float, unit: str, theme: Theme) -> Figure:
    """`of` over the values of a setting, with the value that is set now and the knee marked."""
    found = known(points, of)
    figure = go.Figure(go.Scatter(
        x=[point.value for point in found], y=[getattr(point, of) for point in found], mode="lines+markers",
        name=unit, line={"color": series_color(0, theme), "width": 2}, marker={"size": 7},
        hovertemplate=f"{setting} %{{x}}<br>{unit} %{{y:.2f}}<extra></extra>"))
    marks = {"set now": (next((point for point in found if point.value == now), None), "diamond", 1, 20),
             "knee": (knee(points, of), "star", 2, 12)}  # the smaller one on top, where both are at one value
    for title, (point, symbol, place, size) in marks.items():
        if point:
            figure.add_trace(go.Scatter(
                x=[point.value], y=[getattr(point, of)], mode="markers", name=title,
                marker={"symbol": symbol, "size": size, "color": series_color(place, theme),
                        "line": {"width": 1, "color": COLORS[theme]["ink"]}},
                hovertemplate=f"{title}: {setting} %{{x}}<extra></extra>"))
    return styled(figure, theme, x=setting, y=unit)


def reading(points: Sequence[Point], of: str, setting: str, unit: str) -> str:
    """What the curve says, in a sentence or two."""
    found = known(points, of)
    if len(found) < 2:
        return (f"{unit} is known at {count(len(found), 'value')} of {setting} tried"
                + "".join(f" ({number(point.value, 'g')}: {getattr(point, of):.2f})" for point in found) + ".")
    best, turn = max(found, key=lambda point: getattr(point, of)), knee(points, of)
    least = min(found, key=lambda point: getattr(point, of))
    if getattr(best, of) == getattr(least, of):
        return (f"{unit} is {getattr(best, of):.2f} at all {len(found)} values of {setting} tried, from "
                f"{number(found[0].value, 'g')} to {number(found[-1].value, 'g')}.")
    return (f"{unit} goes from {getattr(least, of):.2f} (at {setting} {number(least.value, 'g')}) to "
            f"{getattr(best, of):.2f} (at {number(best.value, 'g')}). The knee, the smallest of the {len(found)} "
            f"values tried that comes within {KNEE:.0%} of the best, is {number(turn.value, 'g')}.")


def temperature_figure(expected: Expected, measured: float, theme: Theme) -> Figure:
    """The bounds of the expected accepted length over temperature, and what greedy decoding accepted."""
    xs, color = expected.temperatures.tolist(), series_color(2, theme)
    figure = go.Figure([
        go.Scatter(x=xs, y=expected.high.tolist(), mode="lines", name="at most", line={"color": color, "width": 1.5},
                   hovertemplate="temperature %{x:.2f}<br>at most %{y:.2f}<extra></extra>"),
        go.Scatter(x=xs, y=expected.low.tolist(), mode="lines", name="at least", fill="tonexty",
                   fillcolor=faded(COLORS[theme]["accent"], 0.25), line={"color": color, "width": 1.5, "dash": "dash"},
                   hovertemplate="temperature %{x:.2f}<br>at least %{y:.2f}<extra></extra>"),
        go.Scatter(x=[xs[0], xs[-1]], y=[measured, measured], mode="lines", name="greedy, measured",
                   line={"color": COLORS[theme]["ink"], "dash": "dot"}, hoverinfo="skip")])
    return styled(figure, theme, x="temperature", y="accepted a round").update_yaxes(rangemode="tozero")
