"""How many tokens rounds accept: all together, by draft length, along the text, and by turn."""

from __future__ import annotations

from collections import defaultdict

import plotly.graph_objects as go

from treegraft.analysis.reached import Judged, Place, RoundRow
from treegraft.analysis.trend import CERTAIN, Trend, trend
from treegraft.view.acceptance_charts.say import count, of, rounded
from treegraft.view.charts import Chart, Theme, pattern, series_color, upright
from treegraft.view.palette import COLORS
from treegraft.view.scheduler_words import number

OUTCOMES = ("whole depth", "part of it", "nothing")
"""How far down its verified tree a round accepted."""


def accepted_histogram(found: Judged, theme: Theme) -> Chart:
    """Rounds by the number of tokens that they accepted."""
    counts, histogram = found.summary, found.summary.histogram
    rounds: dict[str, list[Place]] = {f"{number} accepted": [] for number, held in enumerate(histogram) if held}
    for row in found.rounds:
        rounds[f"{row.accepted} accepted"].append(row.place)
    ink = {"color": COLORS[theme]["ink"]}
    figure = go.Figure(go.Bar(
        x=list(range(len(histogram))), y=histogram, marker=pattern(0, theme), cliponaxis=False,
        text=histogram, textposition="outside", selected={"textfont": ink},
        unselected={"textfont": ink, "marker": {"opacity": 0.35}},
        customdata=[f"{number} accepted" for number in range(len(histogram))],
        hovertext=[f"{number} accepted: {of(number_of, counts.rounds, 'rounds')}"
                   for number, number_of in enumerate(histogram)], hoverinfo="text"))
    upright(figure, theme, x="Accepted tokens, bonus not counted", y="Rounds")
    figure.update_xaxes(dtick=1 if len(histogram) < 16 else None)
    most = max(range(len(histogram)), key=histogram.__getitem__)
    often = f"Most often a round accepted {most} ({count(histogram[most], 'round')}). " if most else ""
    reading = (f"{of(histogram[0], counts.rounds, 'rounds')} accepted nothing. {often}The mean is "
               f"{counts.mean_accepted:.2f} without the bonus and {counts.tau:.2f} with it.")
    rows = [{"Accepted": number, "Rounds": number_of, "Share of all rounds (%)": rounded(number_of / counts.rounds),
             "At least so many (%)": rounded(sum(histogram[number:]) / counts.rounds)}
            for number, number_of in enumerate(histogram)]
    return Chart(figure, reading, rows, rounds)


def outcome(row: RoundRow) -> str:
    return OUTCOMES[0] if row.accepted >= row.length else OUTCOMES[1] if row.accepted else OUTCOMES[2]


def draft_lengths(found: Judged, theme: Theme) -> Chart:
    """Rounds by the depth of their verified tree, and how far down it they accepted."""
    places: dict[tuple[int, str], list[Place]] = defaultdict(list)
    for row in found.rounds:
        if row.length:
            places[row.length, outcome(row)].append(row.place)
    lengths = sorted({length for length, _ in places})
    depths = list(map(str, lengths))
    figure = go.Figure()
    for place, name in enumerate(OUTCOMES):
        held = [len(places.get((length, name), ())) for length in lengths]
        figure.add_bar(x=depths, y=held, name=f"Accepted {name}", marker=pattern((0, 2, 7)[place], theme),
                       customdata=[f"{length} deep, accepted {name}" for length in lengths], hoverinfo="text",
                       hovertext=[f"{length} deep, accepted {name}: "
                                  + of(number, sum(found.summary.by_draft_length[length]), "rounds of that depth")
                                  for length, number in zip(lengths, held, strict=True)])
    upright(figure, theme, x="Depth of the verified tree", y="Rounds")
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=depths)
    rows = [{"Depth of the tree": length, "Rounds": sum(histogram),
             "Mean accepted": round(sum(j * n for j, n in enumerate(histogram)) / sum(histogram), 2),
             **{f"{j} accepted": histogram[j] if j < len(histogram) else 0
                for j in range(len(found.summary.histogram))}}
            for length, histogram in found.summary.by_draft_length.items()]
    return Chart(figure, _lengths_reading(found, lengths, places), rows,
                 {f"{length} deep, accepted {name}": held for (length, name), held in sorted(places.items())})


def _lengths_reading(found: Judged, lengths: list[int], places: dict[tuple[int, str], list[Place]]) -> str:
    drafted = found.summary.rounds - found.summary.undrafted_rounds
    whole = sum(len(places.get((length, OUTCOMES[0]), ())) for length in lengths)
    reading = (f"Trees were {lengths[0]} to {lengths[-1]} deep. " if len(lengths) > 1 else
               f"All trees were {lengths[0]} deep. ")
    reading += f"{of(whole, drafted, 'rounds with a draft')} accepted the whole depth"
    return reading + (", so deeper trees could have given more there." if whole else ".")


def positions(found: Judged, theme: Theme) -> Chart:
    """Accepted tokens a round along the text, with the fitted line where they show a trend."""
    fitted = trend(found.rounds)
    parts, last = fitted.parts, fitted.parts[-1].high if fitted.parts else 0
    names = [f"Tokens {part.low} to {part.high - 1}" if part.high - part.low > 1 else f"Token {part.low}"
             for part in parts]
    figure = go.Figure(go.Bar(
        x=[part.low for part in parts], y=[part.accepted for part in parts], name="Mean of the stretch", offset=0,
        width=[0.94 * (part.high - part.low) for part in parts], marker=pattern(0, theme), customdata=names,
        hoverinfo="text", hovertext=[f"{name}: {part.accepted:.2f} accepted a round, {count(len(part.places), 'round')}"
                                     for name, part in zip(names, parts, strict=True)]))
    if fitted.verdict in ("falls", "rises"):
        ends = parts[0].low, last
        figure.add_scatter(x=ends, y=[fitted.start + fitted.slope * end for end in ends], mode="lines",
                           name="Line through all rounds", hoverinfo="skip",
                           line={"color": series_color(1, theme), "dash": "dash", "width": 2})
    upright(figure, theme, x="Position in the output, in tokens", y="Accepted a round")
    figure.update_yaxes(rangemode="tozero")
    rows = [{"Output tokens": name, "Rounds": len(part.places), "Mean accepted": round(part.accepted, 2)}
            for name, part in zip(names, fitted.parts, strict=True)]
    return Chart(figure, _trend_reading(fitted), rows,
                 {name: part.places for name, part in zip(names, fitted.parts, strict=True)})


def _trend_reading(fitted: Trend) -> str:
    if fitted.verdict == "unknown":
        return f"{count(fitted.rounds, 'round')} are too few to tell a trend along the text."
    slope, low, high = (number(100 * value, "+.2f") for value in (fitted.slope, fitted.low, fitted.high))
    line = f"{slope} accepted a round per 100 tokens, {CERTAIN:.0%} range {low} to {high}"
    return {"level": f"No trend along the text that {count(fitted.rounds, 'round')} could show: {line}, with 0 in it.",
            "falls": f"Acceptance falls along the text: {line}. A drafter whose context or positions go wrong looks "
                     "like this; so does a text that gets harder.",
            "rises": f"Acceptance rises along the text: {line}."}[fitted.verdict]


def turns(found: Judged, theme: Theme) -> Chart:
    """Tokens a round by turn of the conversation: accepted ones and the bonus."""
    rounds: dict[int, list[RoundRow]] = defaultdict(list)
    for row in found.rounds:
        rounds[row.turn].append(row)
    numbers = sorted(rounds)
    means = [sum(row.accepted for row in rounds[turn]) / len(rounds[turn]) for turn in numbers]
    figure = go.Figure()
    for place, (name, values) in enumerate((("Accepted", means), ("Bonus", [1.0] * len(numbers)))):
        figure.add_bar(x=[f"Turn {turn}" for turn in numbers], y=values, name=name,
                       marker=pattern((0, 4)[place], theme), customdata=[f"Turn {turn}" for turn in numbers],
                       hoverinfo="text",
                       hovertext=[f"Turn {turn}: {mean:.2f} accepted + 1 bonus, {count(len(rounds[turn]), 'round')}"
                                  for turn, mean in zip(numbers, means, strict=True)])
    upright(figure, theme, x="", y="Tokens a round")
    lowest, highest = (pick(zip(means, numbers, strict=True)) for pick in (min, max))
    reading = (f"Tau, the bonus counted, lies between {1 + lowest[0]:.2f} (turn {lowest[1]}) and {1 + highest[0]:.2f} "
               f"(turn {highest[1]}); over all turns together it is {found.summary.tau:.2f}.")
    rows = [{"Turn": turn, "Rounds": len(rounds[turn]), "Tau (with bonus)": round(1 + mean, 2),
             "Mean accepted (without)": round(mean, 2)} for turn, mean in zip(numbers, means, strict=True)]
    return Chart(figure, reading, rows, {f"Turn {turn}": [row.place for row in rounds[turn]] for turn in numbers})


def has_turns(found: Judged) -> bool:
    """Whether the rounds are of more than one turn."""
    return len({row.turn for row in found.rounds}) > 1


