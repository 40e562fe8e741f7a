"""Text for the page."""

from __future__ import annotations

import re

from treegraft.analysis.text import RUNNING_TEXT, visible
from treegraft.view.labels import cut


def running(text: str) -> str:
    """Text as it is, with signs for what would move or hide what stands beside it."""
    return visible(text, keep=RUNNING_TEXT)


def one_line(text: str, length: int) -> str:
    """The beginning of a text, on one line."""
    return cut(visible(" ".join(text.split())), length)


def plain(text: str) -> str:
    """Running text that Markdown shows as it is."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", running(text))
