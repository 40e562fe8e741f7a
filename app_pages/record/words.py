"""Text for the page."""

from __future__ import annotations

import re


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)
