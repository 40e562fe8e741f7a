"""Charts of the Compare page: how outputs grew, and the result of `treegraft compare`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import pandas as pd
import plotly.graph_objects as go

from treegraft.analysis.align import Progress
from treegraft.compare.table import Comparison, Row
from treegraft.view.charts import DASHES, Theme, escaped, pattern, series_color, styled
from treegraft.view.palette import COLORS, PAGE

MARKERS = ("circle", "square", "diamond", "triangle-up")
BAR, AROUND = 42, 110
"""Height of a bar with its name, and of all around the bars, in pixels."""

NAME_ABOVE = 17
"""Pixels from the middle of a bar up to its name: names beside the bars would leave a phone no room for these. Behind
a name the page's colour hides the lines of the chart."""


def growth_chart(found: Sequence[Progress], titles: Sequence[str], theme: Theme, against: str) -> go.Figure:
    """Output tokens, a line a run, against `milliseconds` or `rounds`. Runs without times have no line against time."""
    figure = go.Figure()
    for place, (one, title) in enumerate(zip(found, titles, strict=True)):
        x = one.milliseconds if against == "milliseconds" else list(range(len(one.tokens)))
        if x is None:
            continue
        color = series_color(place, theme)
        figure.add_scatter(
            x=x, y=one.tokens, name=escaped(title), mode="lines+markers", hovertemplate="%{y} tokens after %{x:,.0f}",
            line={"color": color, "dash": DASHES[place % len(DASHES)], "shape": "hv"},
            marker={"symbol": MARKERS[place % len(MARKERS)], "size": 6, "color": color})
    axis = "Milliseconds since the start" if against == "milliseconds" else "Rounds (forwards of the target)"
    return styled(figure, theme, x=axis, y="Output tokens")


def growth_table(found: Sequence[Progress], titles: Sequence[str]) -> pd.DataFrame:
    """The numbers of both charts."""
    return pd.DataFrame([
        {"recording": title, "rounds": rounds, "tokens": tokens,
         "milliseconds": None if one.milliseconds is None else one.milliseconds[rounds]}
        for one, title in zip(found, titles, strict=True) for rounds, tokens in enumerate(one.tokens)])


# --- many prompts ---------------------------------------------------------------------------------------------------


def bars(rows: Sequence[Row], figure: go.Figure, theme: Theme, x: str, values: Sequence[str] = ()) -> go.Figure:
    """Finish a chart with a bar a policy, from top to bottom, each below its name and its value."""
    policies = [escaped(row.policy) for row in rows]
    for policy, value in zip_longest(policies, values, fillvalue=""):
        title = f"{policy}  <b>{value}</b>" if value else policy
        figure.add_annotation(text=title, xref="paper", x=0, xanchor="left", y=policy, yanchor="middle",
                              yshift=NAME_ABOVE, showarrow=False, font={"size": 12, "color": COLORS[theme]["ink"]},
                              bgcolor=PAGE[theme], borderpad=0)
    styled(figure, theme, x=x, y="", height=AROUND + BAR * len(rows))
    figure.update_yaxes(autorange="reversed", categoryorder="array", categoryarray=policies, showticklabels=False,
                        showgrid=False)
    return figure.update_layout(bargap=0.62)


def speed_chart(rows: Sequence[Row], theme: Theme) -> go.Figure:
    """Tokens/s over plain decoding: median over the prompts, and quartiles as a line; 1 is plain decoding."""
    found = [row for row in rows if row.over_plain]
    ratios = [row.over_plain for row in found]
    figure = go.Figure(go.Bar(
        y=[escaped(row.policy) for row in found], x=[one.median for one in ratios], orientation="h", showlegend=False,
        marker={"color": COLORS[theme]["accent"]},
        error_x={"type": "data", "symmetric": False, "array": [one.high - one.median for one in ratios],
                 "arrayminus": [one.median - one.low for one in ratios], "color": COLORS[theme]["ink"]}))
    figure.add_vline(1, line={"color": COLORS[theme]["ink"], "dash": "dot"})
    return bars(found, figure, theme, "Times plain decoding", [f"{one.median:.2f}" for one in ratios])


def tau_chart(rows: Sequence[Row], theme: Theme) -> go.Figure:
    """What a round adds to the text: the bonus token, and accepted ones by the drafter that proposed them."""
    drafted = [row for row in rows if row.rounds]
    origins = dict.fromkeys(origin for row in drafted for origin in row.origins)
    parts = {"bonus": [1.0] * len(drafted)} | {
        origin: [row.origins.get(origin, 0) / row.rounds for row in drafted] for origin in origins}
    return stack(drafted, parts, theme, "Tokens a round")


def time_chart(rows: Sequence[Row], theme: Theme) -> go.Figure:
    """What a round takes, by phase."""
    phases = dict.fromkeys(phase for row in rows for phase in row.phases)
    parts = {phase: [row.phases.get(phase, 0.0) for row in rows] for phase in phases}
    return stack(rows, parts, theme, "Milliseconds a round")


def stack(rows: Sequence[Row], parts: dict[str, list[float]], theme: Theme, x: str) -> go.Figure:
    """Bars that are made up of named parts."""
    figure = go.Figure()
    for place, (part, values) in enumerate(parts.items()):
        figure.add_bar(
            y=[escaped(row.policy) for row in rows], x=values, name=escaped(part), orientation="h",
            marker=pattern(place, theme))
    return bars(rows, figure, theme, x)


def map_chart(comparison: Comparison, theme: Theme) -> go.Figure:
    """Tokens/s over plain decoding, a cell for each policy and category."""
    policies = [row.policy for row in comparison.total if row.over_plain]
    cells = {category: {row.policy: row.over_plain for row in comparison.of_category(category)}
             for category in comparison.categories}
    values = [[found.median if (found := cells[category].get(policy)) else None for category in cells]
              for policy in policies]
    figure = go.Figure(go.Heatmap(
        x=[escaped(category) or "(none)" for category in cells], y=list(map(escaped, policies)), z=values, zmin=0,
        texttemplate="%{z:.2f}", showscale=False, xgap=2, ygap=0.6 * BAR, hoverongaps=False,
        colorscale=[[0, PAGE[theme]], [1, soft(COLORS[theme]["accent"], PAGE[theme])]]))
    return bars([row for row in comparison.total if row.over_plain], figure, theme, "Category")


def soft(color: str, page: str) -> str:
    """A colour mixed with the page's, on which ink can be read."""
    mixed = ((int(color[place:place + 2], 16) + int(page[place:place + 2], 16)) // 2 for place in (1, 3, 5))
    return "#{:02x}{:02x}{:02x}".format(*mixed)
