"""Public mode: `TREEGRAFT_PUBLIC=1`."""

from __future__ import annotations

import os


def is_public() -> bool:
    """Whether strangers use this app."""
    return os.environ.get("TREEGRAFT_PUBLIC") == "1"
