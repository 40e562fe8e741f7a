"""Where treegraft keeps what it fetches and records for a user."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from treegraft.sessions import is_public, session


def home() -> Path:
    """The folder for models and recordings: `TREEGRAFT_HOME`, else the platform's cache folder for treegraft."""
    given = os.environ.get("TREEGRAFT_HOME")
    return Path(os.path.expanduser(given)) if given else platformdirs.user_cache_path("treegraft", appauthor=False)


def recordings() -> Path:
    """The folder that the dashboard writes recordings to and lists them from; it may not exist yet. In public mode each
    session has its own."""
    return session_folders() / (session() or "nobody") if is_public() else home() / "recordings"


def session_folders() -> Path:
    """Where the recordings of public sessions lie, a folder each."""
    return home() / "sessions"
