"""What was measured of the dashboard, for the terminal and as Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from treegraft.analysis.text import visible
from treegraft.bench.files import put
from treegraft.bench.machine import available_cores, cpu_name
from treegraft.bench.ui import LARGE, ROUNDS, Measured
from treegraft.view.grids import Grid, figures

PLACE = "bench ui"


def on_terminal(found: Sequence[Measured]) -> Iterator[RenderableType]:
    """What the command prints."""
    yield Text(where())
    yield from grid(found).on_terminal()


def write_markdown(path: Path, found: Sequence[Measured]) -> None:
    """Put the table into its place in the file at `path`, or make a file of it. Errors: `BenchError`."""
    put(path, f"- {where()}\n\n{grid(found).as_markdown()}\n", PLACE)


def where() -> str:
    """The machine, and how busy it is."""
    load = f"; load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{date.today()}; {visible(cpu_name())}; cores: {available_cores()}{load}; headless Chromium"


def grid(found: Sequence[Measured]) -> Grid:
    """The measurements as a table."""
    rows = [(one.what, f"{figures(one.values, 1)} {one.unit}", *limit(one)) for one in found]
    return Grid("The dashboard", ("what", "measured", "limit", "holds"), rows, (
        "Median (quartiles). A step of the player counts until scripts have run and the page is laid out again.",
        "A visit goes from the address to the first tree, in a browser that is up and has been nowhere yet. The "
        "dashboard is served by `treegraft dashboard`, the empty page by `streamlit run`.",
        f"The large trace has {LARGE / 1e6:.0f} MB, uncompressed. Its memory is what a fresh process grows by until "
        "the first window of trees is drawn, over the size of the file.",
        f"The replays run the policy `lookup` along {ROUNDS} tokens under one budget after another; the first one "
        "grows the trees, which serve the others."))


def limit(one: Measured) -> tuple[str, str]:
    """The limit, and whether it holds."""
    return ("", "") if one.limit is None else (f"{one.limit:g} {one.unit}", "yes" if one.holds else "no")
