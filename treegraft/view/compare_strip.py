"""The text of several runs, one row a run: who wrote each token, as a colour and a sign. Drawn by `web/strip.js`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from treegraft.analysis.align import Written, same_for
from treegraft.analysis.text import PREFILL
from treegraft.trace.runs import Run
from treegraft.view.charts import Theme, series_color
from treegraft.view.labels import cut, label, name
from treegraft.view.palette import COLORS

HTML = '<div class="tg-strip"></div>'
SIGNS = "ⒶⒷⒸⒹⒺⒻⒼⒽ"
"""Of the drafters, in the order in which they appear. The shapes in a tree say a drafter's number in its own run."""

CHOSEN, READ = "◎", "◇"
"""Signs of a token that the target chose in a round, and of the one that it chose when it read the prompt."""

LONGEST_TEXT = 12
"""Characters of a token in its cell."""

MOST_POSITIONS = 400
"""Output positions in one strip."""


def script() -> str:
    return _read("strip.js")


def styles() -> str:
    return _read("strip.css")


def _read(file: str) -> str:
    return files("treegraft.view.web").joinpath(file).read_text("utf-8")


def drafter_names(run: Run) -> dict[int, str]:
    return {one.id: name(one.name or one.kind) for one in run.header.drafters}


def window(length: int, position: int) -> range:
    """The positions that a strip shows: all, or those around `position`, moved on in steps so that it rarely jumps."""
    step = MOST_POSITIONS // 2
    first = min(max(position // step * step - step // 2, 0), max(length - MOST_POSITIONS, 0))
    return range(first, min(first + MOST_POSITIONS, length))


def strip_view(runs: Sequence[Run], columns: Sequence[Sequence[Written]], titles: Sequence[str], position: int,
               theme: Theme) -> dict[str, Any]:
    """What the strip draws. A cell is its text, its sign's place in the legend, the depth, whether a round begins
    there, whether its token is another one than the first run's, and a sentence; None behind the end of a text. `apart`
    is the first position at which the texts differ."""
    shown = window(max(map(len, columns), default=0), position)
    found = legend(runs, columns, theme)
    places = {one["name"]: place for place, one in enumerate(found)}
    names = [drafter_names(run) for run in runs]
    rows = []
    for run, column, of_run, title in zip(runs, columns, names, titles, strict=True):
        cells = [cell(run, column, place, of_run, places, columns[0]) if place < len(column) else None
                 for place in shown]
        rows.append({"name": title, "cells": cells})
    common = same_for(columns)
    return {"first": shown.start, "rows": rows, "legend": found, "colors": COLORS[theme],
            "apart": common if common < max(map(len, columns), default=0) else None}


def legend(runs: Sequence[Run], columns: Sequence[Sequence[Written]], theme: Theme) -> list[dict[str, str]]:
    """Name, sign and colour of everybody who wrote a token."""
    writers = dict.fromkeys(writer_name(one, names) for column, names in zip(columns, map(drafter_names, runs),
                                                                            strict=True) for one in column)
    own = {"target": (CHOSEN, COLORS[theme]["neutral"]), "target, reading the prompt": (READ, COLORS[theme]["neutral"])}
    drafters = [writer for writer in writers if writer not in own]
    drawn = {writer: (SIGNS[place % len(SIGNS)], series_color(place, theme)) for place, writer in enumerate(drafters)}
    return [{"name": writer, "sign": sign, "color": color} for writer, (sign, color) in (drawn | own).items()
            if writer in writers]


def writer_name(one: Written, names: dict[int, str]) -> str:
    if one.drafted:
        return f"{names.get(one.drafter, f'drafter {one.drafter}')} (drafter)"
    return "target" if one.round != PREFILL else "target, reading the prompt"


def cell(run: Run, column: Sequence[Written], place: int, names: dict[int, str],
         places: dict[str, int], first: Sequence[Written]) -> list[Any]:
    one = column[place]
    begins = place == 0 or column[place - 1].round != one.round
    other = place >= len(first) or first[place].token != one.token
    return [cut(label(run.pieces.get(one.token)), LONGEST_TEXT), places[writer_name(one, names)], one.depth, begins,
            other, said(run, one, place)]


def said(run: Run, one: Written, position: int) -> str:
    """Who wrote a token, in one sentence."""
    text = f"Token {position}, “{label(run.pieces.get(one.token))}”: "
    names = drafter_names(run)
    if one.round == PREFILL:
        return text + "the target chose it when it read the prompt."
    if one.drafted:
        return (f"{text}drafted by {names.get(one.drafter, f'drafter {one.drafter}')} at depth {one.depth} of round "
                f"{one.round}, accepted.")
    return f"{text}the target chose it itself, as the bonus of round {one.round} at depth {one.depth}."
