"""Whose browser is asking. Outside public mode all sessions are one person's, and share everything."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

NAME = re.compile(r"[0-9a-f]{32}")

_identify: Callable[[], str] | None = None


def is_public() -> bool:
    """Whether strangers use this app: `TREEGRAFT_PUBLIC=1`."""
    return os.environ.get("TREEGRAFT_PUBLIC") == "1"


def identify_by(identify: Callable[[], str] | None) -> None:
    """Let `identify` name the session that runs the calling thread: 32 hexadecimal digits that nobody can guess."""
    global _identify
    _identify = identify


def session() -> str:
    """The name of the calling session; empty outside public mode and where there is none."""
    if not is_public() or _identify is None:
        return ""
    name = _identify()
    if not NAME.fullmatch(name):
        raise ValueError("a session is named by 32 hexadecimal digits")
    return name
