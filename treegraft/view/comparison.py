"""A comparison of policies as bars, and as a map by category where there are several."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from treegraft.compare.table import Comparison, Row
from treegraft.view.labels import name
from treegraft.view.palette import COLORS, PAGE

BARS = ("tokens/s over plain decoding (median, quartiles)", "tau, by who proposed the tokens", "milliseconds a round")
MAPS = ("tokens/s over plain decoding (median)", "tau")
SERIES = ("accepted", "rejected", "accent", "discarded", "graft1", "graft0", "neutral")
"""Colours of drafters and phases, by their names in the palette."""

COLUMNS = 6
"""Of the grid that the panels share evenly."""

BAR_HEIGHT, LEAST_HEIGHT = 34, 260
"""Pixels of a bar, and of a row of panels."""

TAU, TIME = (3, "legend"), (5, "legend2")
"""First column and legend of the panels that have one."""


def comparison_figure(comparison: Comparison) -> go.Figure:
    """Policies from top to bottom: speed-up, tau and time over all prompts; below, speed-up and tau by category."""
    rows, categories = comparison.total, comparison.categories
    height = max(LEAST_HEIGHT, 90 + BAR_HEIGHT * len(rows))
    bands = 2 if categories else 1
    specs = [panels(len(BARS)), panels(len(MAPS))][:bands]
    titles = BARS + MAPS if categories else BARS
    figure = make_subplots(bands, COLUMNS, specs=specs, subplot_titles=titles, shared_yaxes=True,
                           horizontal_spacing=0.02, vertical_spacing=130 / (bands * height))
    add_speed(figure, rows)
    add_tau(figure, rows)
    add_time(figure, rows)
    if categories:
        add_maps(figure, comparison, categories)
    figure.update_yaxes(autorange="reversed", automargin=True, categoryorder="array", categoryarray=names(rows))
    colors = COLORS["light"]
    legend = {"orientation": "h", "traceorder": "normal", "yanchor": "top", "y": 1 - (height - 35) / (bands * height)}
    return figure.update_layout(
        template="plotly_white", paper_bgcolor=PAGE["light"], plot_bgcolor=PAGE["light"], barmode="stack", width=1400,
        height=bands * height + 60, margin={"t": 60, "b": 60, "l": 20, "r": 20}, font={"color": colors["ink"]},
        title={"text": escaped(f"{comparison.setup.target}, {comparison.setup.dtype} on {comparison.setup.device}, "
                               f"{comparison.setup.prompts} prompts")},
        legend=legend | {"x": 0.35}, legend2=legend | {"x": 0.69})


def panels(count: int) -> list[dict[str, int] | None]:
    """A row of the grid, with so many panels of one width."""
    width = COLUMNS // count
    return [{"colspan": width}, *[None] * (width - 1)] * count


def names(rows: Sequence[Row]) -> list[str]:
    return [escaped(row.policy) for row in rows]


def add_speed(figure: go.Figure, rows: Sequence[Row]) -> None:
    """The speed-up of each policy with its quartiles, and a line where plain decoding is."""
    found = [row for row in rows if row.over_plain]
    ratios = [row.over_plain for row in found]
    error = {"type": "data", "symmetric": False, "array": [one.high - one.median for one in ratios],
             "arrayminus": [one.median - one.low for one in ratios]}
    figure.add_trace(go.Bar(
        y=names(found), x=[one.median for one in ratios], error_x=error, orientation="h", showlegend=False,
        text=[f"{one.median:.2f}" for one in ratios], textposition="inside", insidetextanchor="start",
        marker={"color": COLORS["light"]["accent"]}), 1, 1)
    figure.add_vline(1, line={"color": COLORS["light"]["ink"], "dash": "dot"}, row=1, col=1)


def add_tau(figure: go.Figure, rows: Sequence[Row]) -> None:
    """What a round adds to the text: the bonus token, and the accepted ones by origin."""
    drafted = [row for row in rows if row.rounds]
    parts = {"bonus": [1.0] * len(drafted)}
    for origin in dict.fromkeys(origin for row in drafted for origin in row.origins):
        parts[origin] = [row.origins.get(origin, 0) / row.rounds for row in drafted]
    add_stack(figure, names(drafted), parts, TAU, ("bonus", *SERIES))


def add_time(figure: go.Figure, rows: Sequence[Row]) -> None:
    """What a round takes, by phase."""
    phases = dict.fromkeys(phase for row in rows for phase in row.phases)
    parts = {phase: [row.phases.get(phase, 0.0) for row in rows] for phase in phases}
    add_stack(figure, names(rows), parts, TIME, SERIES)


def add_stack(figure: go.Figure, y: list[str], parts: dict[str, list[float]], panel: tuple[int, str],
              colors: Sequence[str]) -> None:
    """Bars that are made up of named parts."""
    column, legend = panel
    for place, (part, values) in enumerate(parts.items()):
        color = COLORS["light"][colors[place % len(colors)]]
        figure.add_trace(go.Bar(y=y, x=values, orientation="h", name=escaped(part), legend=legend,
                                marker={"color": color}), 1, column)


def add_maps(figure: go.Figure, comparison: Comparison, categories: Sequence[str]) -> None:
    """Speed-up and tau, a cell for each policy and category."""
    policies = [row.policy for row in comparison.total]
    cells = {category: {row.policy: row for row in comparison.of_category(category)} for category in categories}
    speeds = [[speed(cells[category].get(policy)) for category in categories] for policy in policies]
    taus = [[cells[category][policy].tau if policy in cells[category] else None for category in categories]
            for policy in policies]
    for column, values in ((1, speeds), (4, taus)):
        figure.add_trace(go.Heatmap(
            x=[escaped(category) or "(none)" for category in categories], y=names(comparison.total),
            z=values, texttemplate="%{z:.2f}", showscale=False, zmin=0, xgap=2, ygap=2,
            colorscale=[[0, PAGE["light"]], [1, COLORS["light"]["accent"]]]), 2, column)


def speed(row: Row | None) -> float | None:
    return row.over_plain.median if row and row.over_plain else None


def escaped(text: str) -> str:
    """A name for display. Plotly reads some HTML in texts; these characters keep it from seeing any."""
    return name(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
