"""How the training of drafters went, as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from treegraft.view.palette import COLORS, PAGE

Lines = Sequence[Mapping[str, Any]]
"""A training's history: its steps (`loss`), and its validations (`kl`, `top1`, `top5` by unroll step, `tau`)."""

SERIES = ("accepted", "bonus", "rejected", "accent", "discarded")
"""Colours of the trainings, by their names in the palette."""

PANELS = ("KL divergence (nats)", "same favourite as the target", "tau of a short decode")


def training_figure(histories: Mapping[str, Lines]) -> go.Figure:
    """Validations against tokens seen: KL and agreement, one line an unroll step, and tau, for each named training."""
    figure = make_subplots(1, len(PANELS), subplot_titles=PANELS, horizontal_spacing=0.07)
    for place, (name, history) in enumerate(histories.items()):
        found = [line for line in history if "kl" in line]
        colour = COLORS["light"][SERIES[place % len(SERIES)]]
        for step in range(len(found[0]["kl"]) if found else 0):
            for column, key in ((1, "kl"), (2, "top1")):
                label = f"{name}, step {step + 1}" if len(found[0]["kl"]) > 1 else name
                figure.add_trace(line(found, [line_[key][step] for line_ in found], label, colour, 1 - 0.2 * step,
                                      legend=column == 1), 1, column)
        decoded = [line_ for line_ in found if line_["tau"] is not None]
        figure.add_trace(line(decoded, [line_["tau"] for line_ in decoded], name, colour, 1, legend=False), 1, 3)
    figure.update_xaxes(title_text="tokens seen", rangemode="tozero")
    figure.update_yaxes(tickformat=".1%", row=1, col=2)
    return figure.update_layout(template="plotly_white", paper_bgcolor=PAGE["light"], plot_bgcolor=PAGE["light"],
                                height=420, margin={"t": 50, "b": 50, "l": 50, "r": 20},
                                legend={"orientation": "h", "y": -0.2})


def line(found: Lines, values: Sequence[float], name: str, colour: str, opacity: float, legend: bool) -> go.Scatter:
    """One curve over the tokens seen."""
    return go.Scatter(x=[entry["tokens"] for entry in found], y=values, name=name, mode="lines+markers",
                      line={"color": colour}, opacity=max(0.3, opacity), showlegend=legend, legendgroup=name)
