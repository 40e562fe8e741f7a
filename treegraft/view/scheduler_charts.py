"""Charts of the Scheduler page: decisions of a run, what moved a margin, thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from treegraft.analysis.attribution import Attribution
from treegraft.analysis.decisions import Decision
from treegraft.analysis.thresholds import Sweep
from treegraft.view.charts import DASHES, Theme, faded, series_color, styled
from treegraft.view.feature_words import WORDS, readable
from treegraft.view.palette import COLORS, PAGE

CALL, SKIP = "▲", "–"
"""Signs of a call and of a skip, wherever there is one."""

TOP = 8
"""Contributions that get a bar of their own."""

CELL, GRID_SPACE = 34, 120
"""Height of a grid's row, and of all around the rows, in pixels."""


def towards(choice: bool, theme: Theme, share: float = 0.54) -> str:
    """The colour that stands for a call or a skip, mixed with the page's so that ink can be read on it."""
    strong = COLORS[theme]["rejected" if choice else "accent"]
    mixed = (round(share * int(strong[place:place + 2], 16) + (1 - share) * int(PAGE[theme][place:place + 2], 16))
             for place in (1, 3, 5))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def decision_grid(found: Sequence[Decision], layers: int, theme: Theme, chosen: Decision | None = None) -> go.Figure:
    """Rounds by layers: the margin as colour around the threshold, call or skip as a sign. A cell's `customdata` is
    `round/layer`; the `chosen` decision is framed."""
    margins = [0.0 if one.margin is None else one.margin - (one.threshold or 0) for one in found]
    widest = max((abs(margin) for margin in margins), default=0) or 1.0
    cells = go.Bar(
        x=[one.round for one in found], y=[0.92] * len(found), base=[one.layer - 0.46 for one in found], width=0.92,
        text=[CALL if one.call else SKIP for one in found], textposition="inside", insidetextanchor="middle",
        textangle=0, textfont={"color": COLORS[theme]["ink"], "size": 15},
        customdata=[f"{one.round}/{one.layer}" for one in found],
        hovertext=[hover(one) for one in found], hoverinfo="text", unselected={"marker": {"opacity": 1}},
        marker={"color": margins, "cmin": -widest, "cmax": widest,
                "line": {"width": 1, "color": faded(COLORS[theme]["neutral"], 0.5)},
                "showscale": any(one.margin is not None for one in found),
                "colorscale": [[0, towards(False, theme)], [0.5, PAGE[theme]], [1, towards(True, theme)]],
                "colorbar": {"orientation": "h", "thickness": 10, "len": 0.6, "y": 1, "yanchor": "bottom", "x": 0,
                             "xanchor": "left", "outlinewidth": 0, "ypad": 0, "title": {
                                 "text": "Margin above the threshold (ms)", "side": "top", "font": {"size": 13}}}})
    figure = styled(go.Figure(cells), theme, x="Round", y="Layer", height=GRID_SPACE + CELL * layers)
    if chosen:
        figure.add_shape(type="rect", x0=chosen.round - 0.5, x1=chosen.round + 0.5, y0=chosen.layer - 0.5,
                         y1=chosen.layer + 0.5, line={"color": COLORS[theme]["ink"], "width": 3})
    rounds = [one.round for one in found] or [0]
    figure.update_xaxes(showgrid=False, zeroline=False, range=[min(rounds) - 0.6, max(rounds) + 0.6], tickformat="d",
                        fixedrange=True)
    figure.update_yaxes(showgrid=False, zeroline=False, fixedrange=True, title_standoff=14,
                        tickvals=list(range(1, layers + 1)), range=[layers + 0.6, 0.4])
    return figure.update_layout(barmode="overlay", showlegend=False, margin_t=8)


def hover(one: Decision) -> str:
    """What the pointer shows at a cell."""
    lines = [f"Round {one.round}, layer {one.layer}: {'call' if one.call else 'skip'}"]
    if one.margin is not None:
        lines.append(f"margin {one.margin:.2f} ms" + (f", threshold {one.threshold:g} ms" if one.asked else ""))
    if one.spent:
        lines.append("no calls were left")
    return "<br>".join(lines)


def ranked(found: Attribution) -> list[tuple[str, float]]:
    """Features and their contributions, the largest first."""
    return sorted(found.parts.items(), key=lambda part: -abs(part[1]))


def contribution_bars(found: Attribution, seen: Mapping[str, float], theme: Theme) -> go.Figure:
    """What features add to a margin, the largest on top and the smallest together; pushes towards a skip are
    hatched. `seen` are the features' values."""
    top, rest = ranked(found)[:TOP], ranked(found)[TOP:]
    parts = [(f"{WORDS[name].title}<br>{readable(name, seen[name])}", part) for name, part in top]
    parts.append((f"the other {len(rest)}<br>together", sum(part for _, part in rest)))
    figure = go.Figure()
    for call, name in ((True, f"{CALL} towards a call"), (False, f"{SKIP} towards a skip")):
        mine = [(title, part) for title, part in parts if (part > 0) == call]
        figure.add_bar(
            x=[part for _, part in mine], y=[title for title, _ in mine], orientation="h", name=name,
            marker={"color": towards(call, theme, 0.85), "pattern": {"shape": "" if call else "/", "size": 6}},
            text=[signed(part, 1) for _, part in mine], textposition="outside", cliponaxis=False,
            hovertemplate="%{y}: %{x:+.2f} ms<extra></extra>")
    styled(figure, theme, x="Added to the margin (ms)", y="", height=90 + 40 * len(parts))
    widest = max(abs(part) for _, part in parts) or 1.0
    figure.update_xaxes(range=[-1.6 * widest, 1.6 * widest])
    return figure.update_yaxes(categoryorder="array", categoryarray=[title for title, _ in reversed(parts)],
                               showgrid=False, tickfont={"size": 12})


def signed(value: float, digits: int = 0) -> str:
    """A number with its sign."""
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def threshold_chart(found: Sweep, theme: Theme, measure: str, title: str) -> go.Figure:
    """An outcome's `measure` over the thresholds, with the bounds as lines and the recorded threshold marked."""
    ink = COLORS[theme]["ink"]
    figure = go.Figure(go.Scatter(
        x=list(found.thresholds), y=[getattr(one, measure) for one in found.outcomes], name="scheduler",
        mode="lines+markers", line={"color": series_color(0, theme), "width": 2, "shape": "hvh"}, marker={"size": 6},
        hovertemplate="threshold %{x:.2f} ms: %{y:.2f}<extra></extra>"))
    ends = [found.thresholds[0], found.thresholds[-1]]
    for place, (name, bound) in enumerate(found.bounds.items(), start=1):
        figure.add_scatter(x=ends, y=[getattr(bound, measure)] * 2, name=name, mode="lines", hoverinfo="name+y",
                           line={"color": series_color(place, theme), "dash": DASHES[place], "width": 2})
    if found.recorded is not None:
        figure.add_vline(x=found.recorded, line={"color": ink, "width": 1, "dash": "dot"},
                         annotation={"text": "recorded", "font": {"color": ink}, "bgcolor": PAGE[theme], "y": 0.5,
                                     "xanchor": "center"})
    styled(figure, theme, x="Threshold (ms)", y=title)
    return figure.update_layout(legend={"y": 1.05})
