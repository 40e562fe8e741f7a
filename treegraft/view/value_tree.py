"""The value tree of one position: every way to call or skip in a round and what each saves, as a figure and a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from treegraft.analysis.regret import Position, State
from treegraft.scheduler.values import Choices
from treegraft.view.charts import Theme, styled
from treegraft.view.palette import COLORS, PAGE
from treegraft.view.scheduler_charts import CALL, SKIP, signed, towards

ROW, SPACE = 17, 110
"""Height of a round's end in the figure, and of all around the tree, in pixels."""

MOST_ENDS = 64
"""Rounds of a position that the figure shows; where there are more, only the table does."""

Place = tuple[float, float]


def signs(choices: Choices) -> str:
    """Choices as signs, the first layer's first."""
    return " ".join(CALL if call else SKIP for call in choices) or "start"


def places(position: Position) -> dict[Choices, Place]:
    """Where each state and each end of the tree is drawn: its layer, and its height between those that it leads to."""
    found: dict[Choices, Place] = {}
    for row, end in enumerate(sorted(position.ends, key=lambda choices: [not call for call in choices])):
        found[end] = (len(end), -row)
    for before in sorted(position.states, key=len, reverse=True):
        ways = [found[*before, call][1] for call in (True, False)]
        found[before] = (len(before), sum(ways) / 2)
    return found


def value_tree(position: Position, theme: Theme) -> go.Figure:
    """The states from left to right, a call above and a skip below each; the oracle's way is thick, the scheduler's
    dotted beside it."""
    colors, where = COLORS[theme], places(position)
    figure = go.Figure()
    for call, dash in ((True, "solid"), (False, "dash")):
        ways = [(before, (*before, call)) for before in position.states]
        figure.add_scatter(**lines(where, ways), name=f"{CALL} call" if call else f"{SKIP} skip",
                           line={"color": colors["neutral"], "width": 1, "dash": dash})
    figure.add_scatter(**lines(where, steps(position.best)), name="oracle",
                       line={"color": colors["accepted"], "width": 6})
    figure.add_scatter(**lines(where, steps(position.chosen)), name="this run's policy",
                       line={"color": colors["bonus"], "width": 3, "dash": "dot"})
    figure.add_trace(state_marks(position, where, theme))
    figure.add_trace(end_marks(position, where, theme))
    depth = max(map(len, position.ends))
    styled(figure, theme, x="Decided so far", y="", height=SPACE + ROW * max(6, len(position.ends)))
    figure.update_xaxes(range=[-0.35, depth + 0.75], tickvals=list(range(depth + 1)), showgrid=False, zeroline=False,
                        ticktext=["start", *(f"layer {layer}" for layer in range(1, depth + 1))])
    return figure.update_yaxes(visible=False, range=[1 - len(position.ends) - 0.8, 0.8])


def steps(choices: Choices) -> list[tuple[Choices, Choices]]:
    """The ways from state to state that some choices take."""
    return [(choices[:layer], choices[:layer + 1]) for layer in range(len(choices))]


def lines(where: Mapping[Choices, Place], ways: Sequence[tuple[Choices, Choices]]) -> dict[str, Any]:
    """Lines between the ends of `ways`, as a trace's columns."""
    ends = [end for start, stop in ways for end in (where[start], where[stop], (None, None))]
    return {"x": [x for x, _ in ends], "y": [y for _, y in ends], "mode": "lines", "hoverinfo": "skip"}


def state_marks(position: Position, where: Mapping[Choices, Place], theme: Theme) -> go.Scatter:
    """The states: a sign for the better choice, and what a call saves in whole milliseconds."""
    better = [state.saved > 0 for state in position.states.values()]
    return go.Scatter(
        x=[where[before][0] for before in position.states], y=[where[before][1] for before in position.states],
        mode="markers+text", text=[signed(state.saved) for state in position.states.values()],
        textposition=[beside(before, max(map(len, position.ends))) for before in position.states],
        textfont={"size": 11, "color": COLORS[theme]["ink"]}, showlegend=False,
        marker={"symbol": ["triangle-up" if call else "line-ew" for call in better], "size": 11,
                "color": [towards(call, theme, 0.9) for call in better],
                "line": {"width": [1 if call else 3 for call in better],
                         "color": [PAGE[theme] if call else towards(call, theme, 0.9) for call in better]}},
        hovertext=[state_words(before, state) for before, state in position.states.items()], hoverinfo="text")


def beside(before: Choices, depth: int) -> str:
    """Where a state's number is clear of the lines: a call comes from below, a skip from above. In the last of `depth`
    layers the states are close to one another."""
    if not 0 < len(before) < depth - 1:
        return "top center"
    return "top left" if before[-1] else "bottom left"


def end_marks(position: Position, where: Mapping[Choices, Place], theme: Theme) -> go.Scatter:
    """The ends of rounds: how many tokens each brings."""
    ends = position.ends.values()
    return go.Scatter(
        x=[where[end.choices][0] for end in ends], y=[where[end.choices][1] for end in ends], mode="markers+text",
        text=[f"{end.taken}" for end in ends], textposition="middle right", showlegend=False,
        textfont={"size": 11, "color": COLORS[theme]["ink"]}, hoverinfo="text",
        marker={"symbol": "circle", "size": 5, "color": COLORS[theme]["neutral"]},
        hovertext=[f"{signs(end.choices)}: brings {end.taken} tokens in {end.milliseconds:.1f} ms" for end in ends])


def state_words(before: Choices, state: State) -> str:
    """What the pointer shows at a state."""
    return (f"after {signs(before)}<br>call: {state.call:,.1f} ms to the end of the text<br>"
            f"skip: {state.skip:,.1f} ms<br>a call saves {state.saved:+,.1f} ms")


def state_rows(position: Position) -> Iterator[dict[str, Any]]:
    """The states as rows of a table, in the order of their layers."""
    ways = {"oracle": dict(steps(position.best)), "run": dict(steps(position.chosen))}
    for before, state in sorted(position.states.items(), key=lambda item: (len(item[0]), [not one for one in item[0]])):
        row = {"Layer": len(before) + 1, "Decided so far": signs(before), "Call (ms left)": round(state.call, 1),
               "Skip (ms left)": round(state.skip, 1), "A call saves (ms)": round(state.saved, 1)}
        for name, title in (("oracle", "Oracle"), ("run", "This run's policy")):
            after = ways[name].get(before)
            row[title] = "" if after is None else "call" if after[-1] else "skip"
        yield row


def reading(position: Position) -> str:
    """The tree in one or two sentences."""
    best, chosen = position.ends[position.best], position.ends[position.chosen]
    said = f"Best: {told(best.choices)}. That gets {counted(best.taken, 'token')} in {best.milliseconds:.0f} ms. "
    if position.best == position.chosen:
        said += "This run's policy decides the same, so nothing is lost."
    else:
        said += (f"This run's policy: {told(chosen.choices)}. That gets {counted(chosen.taken, 'token')} in "
                 f"{chosen.milliseconds:.0f} ms, and by the end of the text it has lost {position.lost:.1f} ms.")
    if position.impossible:
        said += (f" {counted(position.impossible, 'state')} cannot occur here, because the round has ended before, and "
                 "are left out.")
    return said


def told(choices: Choices) -> str:
    """Choices in words."""
    parts = []
    for call, group in itertools.groupby(choices):
        times = len(list(group))
        parts.append(("call" if call else "skip") + (f" {times} times" if times > 1 else ""))
    return ", then ".join(parts)


def counted(number: int, what: str) -> str:
    """A number of things."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
