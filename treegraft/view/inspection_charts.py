"""The attention mask of a round as a heat map, and its positions and caches as tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from treegraft.analysis.inspection import Attention, Cache
from treegraft.trace.runs import Run
from treegraft.view.charts import Theme, escaped, faded, styled
from treegraft.view.labels import label, name
from treegraft.view.palette import COLORS

if TYPE_CHECKING:
    import pandas

MOST_ROWS = 160
"""Rows of the heat map: beyond, a cell is smaller than a pixel and a half."""

CELL = 13
LEAST_HEIGHT, MOST_HEIGHT = 240, 900
"""Of the heat map, in pixels."""

LABELLED = 64
"""The most rows that carry their tokens; beyond, they show under the pointer alone."""


def mask_figure(seen: Attention, tokens: Sequence[str], path: Collection[int], theme: Theme) -> go.Figure:
    """Rows attend to columns, both in the order of the verification; those of the accepted `path` stand out.

    `tokens` are display texts of the nodes in that order."""
    size, colors = min(len(seen.order), MOST_ROWS), COLORS[theme]
    names = [f"{node} {escaped(token)}" for node, token in zip(seen.order[:size], tokens, strict=False)]
    mask = seen.mask[:size, :size]
    values = mask.astype(int)
    on_path = np.isin(seen.order[:size], [0, *path])
    values[np.ix_(on_path, on_path)] *= 2
    words = np.where(mask, "attends to", "does not see")
    figure = go.Figure(go.Heatmap(
        z=values, x=names, y=names, text=words, hovertemplate="%{y} %{text} %{x}<extra></extra>", showscale=False,
        zmin=0, zmax=2, xgap=0.5, ygap=0.5,
        colorscale=[(0, faded(colors["neutral"], 0.1)), (0.33, faded(colors["neutral"], 0.1)),
                    (0.34, colors["accent"]), (0.66, colors["accent"]), (0.67, colors["accepted"]),
                    (1, colors["accepted"])]))
    styled(figure, theme, x="is attended to", y="attends",
           height=min(max(LEAST_HEIGHT, CELL * size + 80), MOST_HEIGHT))
    common = {"showgrid": False, "type": "category", "dtick": 1, "tickfont": {"size": 10}}
    figure.update_xaxes(showticklabels=False, **common)
    return figure.update_yaxes(showticklabels=size <= LABELLED, autorange="reversed", **common)


def mask_reading(seen: Attention, path: Collection[int]) -> str:
    """What the heat map shows, in one line."""
    size, open_places = len(seen.order), int(seen.mask.sum())
    cut = f" The first {MOST_ROWS} of {size} rows are drawn." if size > MOST_ROWS else ""
    return (f"{size} nodes in the order of the verification: {open_places} of {size * size} places are open, each node "
            f"to itself and its ancestors; the {len(path)} accepted ones and the root stand out. All of them also "
            f"attend to the {seen.committed} committed tokens before the root.{cut}")


def mask_table(run: Run, seen: Attention, token: Sequence[int]) -> pandas.DataFrame:
    """One row a verified node: its position, and the nodes that it attends to. `token` holds the ids of all nodes."""
    import pandas

    return pandas.DataFrame([{
        "node": node, "token": label(run.pieces.get(token[node])), "depth": depth, "position": position,
        "attends to": " ".join(str(seen.order[column]) for column in np.flatnonzero(seen.mask[row]).tolist()),
    } for row, (node, depth, position) in enumerate(zip(seen.order, seen.depth, seen.position, strict=True))])


def cache_table(run: Run, caches: Sequence[Cache]) -> pandas.DataFrame:
    """One row a model: tokens in its KV cache before, during and after the round, and what is expected."""
    import pandas

    names = {drafter.id: name(drafter.name or drafter.kind) for drafter in run.header.drafters}
    return pandas.DataFrame([{
        "model": names.get(cache.model, f"drafter {cache.model}") if cache.model >= 0 else "target",
        "before the round": _count(cache.before), "with the tree": _count(cache.during),
        "after it": _count(cache.after),
        "expected after it": f"{cache.expected}" if cache.model < 0 else f"at most {cache.expected}",
    } for cache in caches])


def _count(tokens: int | None) -> str:
    return "not recorded" if tokens is None else str(tokens)
