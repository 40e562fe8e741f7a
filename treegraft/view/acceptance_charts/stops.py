"""Where acceptance stops: by depth, and by the kind of token."""

from __future__ import annotations

import plotly.graph_objects as go

from treegraft.analysis.metrics import Depth
from treegraft.analysis.reached import Judged
from treegraft.analysis.token_kinds import KindRow
from treegraft.view.acceptance_charts.say import of, percent, rounded
from treegraft.view.charts import Chart, Theme, lying, pattern, series_color, upright

FEW = 5
"""Rounds, or tokens of a kind, below which their share is not worth a word."""


def depths(found: Judged, theme: Theme) -> Chart:
    """Acceptance by depth, marginal and conditional, and how many rounds had drafted so deep."""
    rows = found.summary.depths
    at = [row.depth for row in rows]
    figure = go.Figure()
    figure.add_bar(
        x=at, y=[row.marginal for row in rows], name="Marginal: of all rounds", marker=pattern(0, theme),
        customdata=[f"At least {depth} accepted" for depth in at], hoverinfo="text", hovertext=[
            f"Marginal, depth {row.depth}: {of(row.accepted, row.rounds, 'rounds')} accepted at least so many"
            for row in rows])
    figure.add_bar(
        x=at, y=[row.conditional for row in rows], name="Conditional: of rounds that got to the depth above",
        marker=pattern(2, theme), customdata=[f"Stopped at depth {depth}" for depth in at], hoverinfo="text",
        hovertext=[f"Conditional, depth {row.depth}: "
                   + of(row.accepted, row.reached, "rounds that accepted the depth above") for row in rows])
    figure.add_scatter(
        x=at, y=[row.proposed / row.rounds for row in rows], name="Had drafted so deep", mode="lines+markers",
        line={"color": series_color(7, theme), "dash": "dot", "width": 2}, marker={"symbol": "diamond", "size": 7},
        hoverinfo="text", hovertext=[f"{of(row.proposed, row.rounds, 'rounds')} had a draft at depth {row.depth}"
                                     for row in rows])
    upright(figure, theme, x="Depth", y="Share")
    figure.update_layout(barmode="group").update_xaxes(dtick=1 if len(at) < 16 else None)
    figure.update_yaxes(tickformat=".0%", range=[0, 1.04])
    rounds = {}
    for depth in at:
        rounds[f"At least {depth} accepted"] = [row.place for row in found.rounds if row.accepted >= depth]
        rounds[f"Stopped at depth {depth}"] = [row.place for row in found.rounds if row.accepted == depth - 1]
    return Chart(figure, _depths_reading(rows), [
        {"Depth": row.depth, "Accepted": row.accepted, "Marginal (%)": rounded(row.marginal), "All rounds": row.rounds,
         "Conditional (%)": rounded(row.conditional), "Accepted the depth above": row.reached,
         "Had a draft there": row.proposed} for row in rows], {name: held for name, held in rounds.items() if held})


def _depths_reading(rows: list[Depth]) -> str:
    first = rows[0]
    reading = f"The first drafted token was accepted in {of(first.accepted, first.rounds, 'rounds')}."
    known = [row for row in rows[1:] if row.reached >= FEW and row.conditional is not None]
    if known:
        worst = min(known, key=lambda row: row.conditional)
        reading += (f" Of rounds that go on, the fewest pass depth {worst.depth}: "
                    f"{of(worst.accepted, worst.reached, 'that got there')}.")
    short = next((row for row in rows if row.proposed < row.rounds), None)
    if short:
        reading += (f" From depth {short.depth} on not every round had a draft ({short.proposed} of {short.rounds} had "
                    f"one at depth {short.depth}), which can lower both shares.")
    return reading


def token_kinds(kinds: list[KindRow], theme: Theme) -> Chart:
    """For each kind of token: how much of what the target judged it accepted, and how much of the text was drafted."""
    shown = list(reversed(kinds))
    names = [row.kind for row in shown]
    figure = go.Figure()
    figure.add_bar(
        y=names, x=[row.covered for row in shown], orientation="h", name="Drafted, of the text's tokens",
        marker=pattern(0, theme), customdata=[f"Accepted: {row.kind}" for row in shown], hoverinfo="text",
        hovertext=[f"{row.kind}: {of(row.accepted, row.wanted, 'tokens that rounds wrote')} had been drafted"
                   for row in shown])
    figure.add_bar(
        y=names, x=[row.share for row in shown], orientation="h", name="Accepted, of the judged nodes",
        marker=pattern(2, theme), customdata=[f"Rejected: {row.kind}" for row in shown], hoverinfo="text",
        hovertext=[f"{row.kind}: {of(row.accepted, row.accepted + row.rejected, 'judged nodes')} accepted"
                   for row in shown])
    lying(figure, theme, x="Share", height=120 + 40 * len(kinds))
    figure.update_layout(barmode="group", legend={"traceorder": "reversed"})
    figure.update_xaxes(tickformat=".0%", range=[0, 1.04])
    rounds = {f"Accepted: {row.kind}": row.accepted_in for row in kinds}
    rounds |= {f"Rejected: {row.kind}": row.rejected_in for row in kinds}
    return Chart(figure, _kinds_reading(kinds), [
        {"Kind": row.kind, "Accepted": row.accepted, "Rejected": row.rejected,
         "Accepted / judged (%)": rounded(row.share), "Tokens that rounds wrote": row.wanted,
         "Of these drafted (%)": rounded(row.covered)} for row in kinds],
        {name: held for name, held in rounds.items() if held})


def _kinds_reading(kinds: list[KindRow]) -> str:
    accepted, rejected = sum(row.accepted for row in kinds), sum(row.rejected for row in kinds)
    reading = f"The target judged {accepted + rejected:,} drafted nodes and accepted {accepted:,}."
    known = [row for row in kinds if row.wanted >= FEW]
    if len(known) < 2:
        return reading
    most, least = (pick(row.covered for row in known) for pick in (max, min))
    reading += (f" Of the text, drafts found {percent(most)} of each kind" if most == least else
                f" Of the text, drafts found most of kind {_of_kinds(known, most)}, least of kind "
                f"{_of_kinds(known, least)}")
    left_out = f". Kinds with fewer than {FEW} tokens are left out here" if len(known) < len(kinds) else ""
    return f"{reading}{left_out}."


def _of_kinds(kinds: list[KindRow], covered: float) -> str:
    """The kinds of which drafts found this share: ties are all named."""
    return " and ".join(f"{row.kind} ({percent(row.covered)} of {row.wanted})" for row in kinds
                        if row.covered == covered)
