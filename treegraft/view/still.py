"""Plotly figures as files: a page that needs no network, and a still picture."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go

from treegraft.files import write_whole

SCALE = 2
"""Pixels of a picture for each pixel of its figure."""

WAIT = 120
"""Seconds that the browser which draws a picture may take."""


def save_html(figure: go.Figure, path: Path) -> None:
    """Write a page that any browser opens offline."""
    write_whole(path, figure.to_html().encode())


def save_png(figure: go.Figure, path: Path) -> str:
    """Write a picture, drawn by a Chromium that nobody sees; returns why there is none, or nothing.

    An older picture at `path` is removed first, so that none is left that does not belong to its page.
    """
    import kaleido
    from kaleido.errors import KaleidoError

    path.unlink(missing_ok=True)
    options = {"format": "png", "width": figure.layout.width, "height": figure.layout.height, "scale": SCALE}
    browser = {"mathjax": False, "timeout": WAIT}
    try:
        picture = kaleido.calc_fig_sync(figure.to_plotly_json(), opts=options, kopts=browser)
    except (RuntimeError, ValueError, OSError, KaleidoError) as error:
        cause = str(error).strip().splitlines()
        return (f"{path.name} was not written: {cause[0] if cause else type(error).__name__}. It takes a Chromium or "
                "Chrome; the page shows the same.")
    write_whole(path, picture)
    return ""
