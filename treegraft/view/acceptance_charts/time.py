"""Where the time goes: by phase in each round, and over the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

import plotly.graph_objects as go

from treegraft.analysis.metrics import Summary
from treegraft.analysis.reached import Judged, RoundRow
from treegraft.view.acceptance_charts.say import count, percent, rounded
from treegraft.view.charts import Chart, Theme, escaped, lying, pattern, upright
from treegraft.view.labels import name

PHASES = {"prefill": "Reading the prompt", "draft": "Drafting", "verify": "Verification", "accept": "Acceptance",
          "commit": "Committing", "other": "The rest of the rounds"}
RECORDER = "Recorder, on top"
MOST_BARS = 100
MOST_PHASES = 7
"""Phases with a bar of their own; a trace may name any number."""


def title(phase: str) -> str:
    return PHASES.get(phase) or name(phase)


def phases_of(row: RoundRow) -> dict[str, int]:
    """Microseconds by phase, what the phases leave of the round's total as `other`."""
    phases = {phase: time for phase, time in row.times.items() if phase != "total"}
    return phases | {"other": phases.get("other", 0) + max(row.times.get("total", 0) - sum(phases.values()), 0)}


def round_times(found: Judged, theme: Theme) -> Chart:
    """Milliseconds by phase of each round; of many rounds, the mean of neighbours."""
    groups = _grouped(found.rounds)
    means = [_mean(rows) for rows in groups.values()]
    total: Counter[str] = Counter()
    for mean in means:
        total.update(mean)
    phases = sorted((phase for phase, _ in total.most_common(MOST_PHASES) if total[phase]),
                    key=lambda phase: list(PHASES).index(phase) if phase in PHASES else len(PHASES))
    figure = go.Figure()
    for place, phase in enumerate(phases):
        figure.add_bar(
            x=list(range(len(groups))), y=[mean.get(phase, 0) for mean in means], name=escaped(title(phase)),
            marker=pattern(_place(phase, place), theme), customdata=list(groups), hoverinfo="text",
            hovertext=[f"{key}: {escaped(title(phase))} {mean.get(phase, 0):,.1f} of {sum(mean.values()):,.1f} ms"
                       for key, mean in zip(groups, means, strict=True)])
    upright(figure, theme, x="Rounds, in order", y="ms a round")
    step = max(1, len(groups) // 10)
    ticks = list(range(0, len(groups), step))
    figure.update_xaxes(tickvals=ticks, ticktext=[list(groups)[tick].split(" ", 1)[1] for tick in ticks])
    rows = [{"Rounds": key, **{title(phase): round(mean.get(phase, 0), 2) for phase in phases},
             "Whole round (ms)": round(sum(mean.values()), 2)} for key, mean in zip(groups, means, strict=True)]
    return Chart(figure, _times_reading(found.rounds), rows,
                 {key: [row.place for row in members] for key, members in groups.items()})


def _place(phase: str, place: int) -> int:
    """Number of a phase's series: each known phase has its own in every chart."""
    return {"draft": 2, "verify": 0, "accept": 4, "commit": 3, "other": 7, "prefill": 5}.get(phase, place)


def _grouped(rounds: Sequence[RoundRow]) -> dict[str, list[RoundRow]]:
    """Rounds by the name of their bar, at most `MOST_BARS` of them."""
    size = -(-len(rounds) // MOST_BARS)
    several = len({row.place[0] for row in rounds}) > 1
    groups = {}
    for start in range(0, len(rounds), size):
        members = list(rounds[start:start + size])
        first, last = (f"{row.place[0]}/{row.place[1]}" if several else str(row.place[1])
                       for row in (members[0], members[-1]))
        groups[f"Round {first}" if len(members) == 1 else f"Rounds {first}-{last}"] = members
    return groups


def _mean(rows: Sequence[RoundRow]) -> dict[str, float]:
    """Mean milliseconds by phase."""
    total: Counter[str] = Counter()
    for row in rows:
        total.update(phases_of(row))
    return {phase: time / len(rows) / 1000 for phase, time in total.items()}


def _times_reading(rounds: Sequence[RoundRow]) -> str:
    whole = [sum(phases_of(row).values()) / 1000 for row in rounds]
    slowest = max(range(len(rounds)), key=whole.__getitem__)
    return (f"Half of the {count(len(rounds), 'round')} took {median(whole):,.1f} ms or less; the slowest, round "
            f"{rounds[slowest].place[1]}, took {whole[slowest]:,.1f} ms.")


def time_shares(counts: Summary, theme: Theme) -> Chart:
    """Time by phase over the runs, with what the recorder took on top of them."""
    phases = dict(Counter(counts.phases).most_common(MOST_PHASES))
    rest = sum(counts.phases.values()) - sum(phases.values())
    phases |= {"all others": rest} if rest else {}
    loop = sum(phases.values())
    bars = [(title(phase), time, _place(phase, place)) for place, (phase, time) in enumerate(phases.items())]
    bars += [(RECORDER, counts.recording, 1)] if counts.recording else []
    figure = go.Figure(go.Bar(
        y=[escaped(bar) for bar, _, _ in reversed(bars)], x=[time / loop for _, time, _ in reversed(bars)],
        orientation="h", cliponaxis=False, text=[percent(time / loop, 1) for _, time, _ in reversed(bars)],
        textposition="outside", hoverinfo="text",
        marker={"color": [pattern(place, theme)["color"] for _, _, place in reversed(bars)], "line": {"width": 0}},
        hovertext=[f"{escaped(bar)}: {time / 1000:,.1f} ms, {percent(time / loop, 1)} of {loop / 1000:,.1f} ms"
                   for bar, time, _ in reversed(bars)]))
    lying(figure, theme, x="Share of the decode loop's phases", height=90 + 34 * len(bars))
    figure.update_xaxes(tickformat=".0%", range=[0, 1.18 * max(time / loop for _, time, _ in bars)])
    return Chart(figure, _shares_reading(counts, bars, loop), [
        {"Phase": bar, "ms": round(time / 1000, 1), "Share of the phases (%)": rounded(time / loop)}
        for bar, time, _ in bars])


def _shares_reading(counts: Summary, bars: Sequence[tuple[str, int, int]], loop: int) -> str:
    most, time, _ = max((bar for bar in bars if bar[0] != RECORDER), key=lambda bar: bar[1])
    recorder = (f"writing the trace took {percent(counts.recording / loop, 1)} on top, which no speed here includes"
                if counts.recording else "how long the trace took to write was not recorded")
    return (f"{most} takes {percent(time / loop)} of {loop / 1000:,.0f} ms in "
            f"{count(counts.rounds, 'round')}; {recorder}.")


def forward_rows(counts: Summary) -> list[dict[str, object]]:
    """The table of model passes inside the rounds."""
    loop = sum(counts.phases.values())
    return [{"Model": name(model.name), "Forwards": model.forwards, "A round": round(model.forwards / counts.rounds, 2),
             "Tokens a forward": round(model.tokens / model.forwards, 1),
             "ms a forward": round(model.microseconds / model.forwards / 1000, 2),
             "Share of the phases (%)": rounded(model.microseconds / loop) if loop else None}
            for model in counts.models]
