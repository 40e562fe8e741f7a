"""Who proposed what was accepted, and whether drafters' probabilities hold."""

from __future__ import annotations

import math
from collections import defaultdict

import plotly.graph_objects as go

from treegraft.analysis.metrics import Origin, ratio
from treegraft.analysis.reached import Judged, Place
from treegraft.analysis.reliability import Bin, Reliability
from treegraft.view.acceptance_charts.say import count, of, percent, rounded
from treegraft.view.charts import DASHES, Chart, Theme, escaped, pattern, series_color, styled, upright
from treegraft.view.labels import name
from treegraft.view.palette import COLORS

MARKS = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1)
"""Probabilities that the axes of the calibration name."""

CLOSE = 2.0
"""Standard errors of the accepted share within which a drafter's mean probability is called right."""


def drafters(found: Judged, theme: Theme) -> Chart:
    """For each drafter its share of the drafted nodes, of the verified ones and of the accepted tokens."""
    counts, origins = found.summary, found.summary.origins
    places: dict[str, dict[Place, None]] = defaultdict(dict)
    for node in found.nodes:
        if node.accepted:
            places[f"Accepted from {name(node.origin)}"][node.place] = None
    figure = go.Figure()
    stages = (("Drafted nodes", [one.grown for one in origins], counts.grown),
              ("Verified nodes", [one.verified for one in origins], counts.drafted),
              ("Accepted tokens", [one.accepted for one in origins], counts.accepted))
    for place, (title, values, whole) in enumerate(stages):
        figure.add_bar(
            x=[escaped(one.name) for one in origins], y=[ratio(value, whole) for value in values], name=title,
            marker=pattern((7, 2, 0)[place], theme), hoverinfo="text",
            customdata=[f"Accepted from {name(one.name)}" for one in origins],
            hovertext=[f"{escaped(one.name)}: {of(value, whole, title.lower())}"
                       for one, value in zip(origins, values, strict=True)])
    upright(figure, theme, x="Drafter that proposed first", y="Share of all")
    figure.update_layout(barmode="group").update_yaxes(tickformat=".0%", range=[0, 1.04])
    return Chart(figure, _drafters_reading(found), [
        {"Drafter": name(one.name), "Drafted": one.grown, "Verified": one.verified, "Accepted": one.accepted,
         "Node yield (%)": rounded(ratio(one.accepted, one.verified)),
         "Share of accepted (%)": rounded(ratio(one.accepted, counts.accepted)),
         "Accepted and proposed by another, too": one.shared} for one in origins],
        {title: list(held) for title, held in places.items()})


def _drafters_reading(found: Judged) -> str:
    counts = found.summary
    best: Origin = max(counts.origins, key=lambda one: one.accepted)
    yields = f"Of {counts.drafted:,} verified nodes {counts.accepted:,} were accepted ({percent(counts.node_yield, 1)})"
    if len(counts.origins) == 1:
        sent = f"{counts.drafted / counts.rounds:.1f} a round were sent"
        return f"All nodes come from {name(best.name)}. {yields}; {sent}."
    if not counts.accepted:
        return f"{yields}."
    shared = sum(one.shared for one in counts.origins)
    return (f"{name(best.name)} proposed {of(best.accepted, counts.accepted, 'accepted tokens')} first. {yields}."
            + (f" {count(shared, 'accepted token')} had been proposed by more than one drafter." if shared else ""))


def calibration(drafter: Reliability, theme: Theme) -> Chart:
    """A drafter's probability against how often the target accepted, and against the target's own probability.

    Both axes show square roots, so that the many small probabilities do not lie on one spot; what is right stays a
    straight line."""
    bins, ink = drafter.bins, COLORS[theme]["ink"]
    names = [bin_name(one) for one in bins]
    figure = go.Figure(go.Scatter(x=[0, 1], y=[0, 1], mode="lines", name="Right: the same on both axes",
                                  hoverinfo="skip", line={"color": ink, "width": 1, "dash": DASHES[2]}))
    series = (("Accepted by the target", [one.share for one in bins], "circle", 0),
              ("Mean probability under the target", [one.p for one in bins], "diamond-open", 1))
    for title, values, symbol, place in series:
        figure.add_scatter(
            x=[math.sqrt(one.q) for one in bins], y=[math.sqrt(value) for value in values], name=title,
            mode="lines+markers", line={"color": series_color(2 * place, theme), "width": 2, "dash": DASHES[place]},
            marker={"symbol": symbol, "size": 9}, customdata=names, hoverinfo="text",
            hovertext=[f"{key}: mean q {one.q:.3f}<br>{of(one.accepted, one.count, 'nodes')} accepted"
                       f"<br>mean p under the target {one.p:.3f}" for key, one in zip(names, bins, strict=True)])
    styled(figure, theme, x="Probability q that the drafter gave", y="Share, or probability", height=360)
    marks = {"tickvals": [math.sqrt(mark) for mark in MARKS], "ticktext": [f"{mark:g}" for mark in MARKS]}
    figure.update_xaxes(range=[-0.02, 1.02], **marks).update_yaxes(range=[-0.04, 1.04], **marks)
    rows = [{"q from": round(one.low, 4), "q to": round(one.high, 4), "Nodes": one.count, "Mean q": round(one.q, 4),
             "Accepted": one.accepted, "Accepted (%)": rounded(one.share), "Mean p of the target": round(one.p, 4)}
            for one in bins]
    return Chart(figure, _calibration_reading(drafter), rows,
                 {key: one.places for key, one in zip(names, bins, strict=True)})


def bin_name(one: Bin) -> str:
    return f"q = {one.low:.4g}" if one.low == one.high else f"q from {one.low:.4g} to {one.high:.4g}"


def _calibration_reading(drafter: Reliability) -> str:
    chance = math.sqrt(drafter.q * (1 - drafter.q) / drafter.count)
    verdict = ("about right" if abs(drafter.q - drafter.share) <= CLOSE * chance else
               "too sure of itself" if drafter.q > drafter.share else "not sure enough of itself")
    return (f"{name(drafter.drafter)} is {verdict} over all: it gave {drafter.count:,} judged nodes {drafter.q:.3f} "
            f"on average, and {percent(drafter.share, 1)} were accepted. On average the bins are off by "
            f"{drafter.error:.3f}.")
