"""The view of a run that is being decoded: its text, the tokens of each round, and the tree of the last one."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from treegraft.analysis.text import RUNNING_TEXT, chunks, visible
from treegraft.view import web
from treegraft.view.labels import cut
from treegraft.view.model import TEXT_LENGTH, run_view

if TYPE_CHECKING:
    from treegraft.trace.reader import Run

TEXT_ROUNDS = 256
"""The text and the small columns go back this many rounds."""


def live_view(run: Run) -> dict[str, Any]:
    """The last round of `run` as `model.run_view` has it, with the text of many rounds instead of that round's alone.

    `text` is a list of chunks, each a list of (text, kind) with kind d (drafted), c (chosen) or x (discarded);
    `written` gives for each of these rounds how many drafted tokens it added.
    """
    total = len(run.rounds)
    first = max(0, total - TEXT_ROUNDS)
    text = [[(cut(visible(token.text, keep=RUNNING_TEXT), TEXT_LENGTH), KINDS[token.kind]) for token in chunk.tokens]
            for chunk in chunks(run, first)]
    written = [sum(kind == "d" for _, kind in chunk) for chunk in text[1:]]
    return run_view(run, total - 1, 1) | {"text": text, "text_from": first, "written": written}


KINDS = {"drafted": "d", "chosen": "c", "discarded": "x"}


@cache
def script() -> str:
    """The component's JavaScript."""
    return files(web).joinpath("race.js").read_text("utf-8") + web.script("live")


@cache
def styles() -> str:
    return web.styles() + files(web).joinpath("live.css").read_text("utf-8")
