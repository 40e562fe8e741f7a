"""Public mode: `TREEGRAFT_PUBLIC=1` bounds what strangers may ask of a dashboard, and keeps their recordings apart.

`docs/live.md` says how to run it. Every bound is a constant here; `check` is what a worker asks before it runs.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from treegraft.home import home, session_folders
from treegraft.models.errors import ModelError
from treegraft.models.pairs import PAIRS
from treegraft.sessions import is_public

if TYPE_CHECKING:
    from treegraft.live import Request

MOST_NEW_TOKENS = 256
"""New tokens of one run."""

LONGEST_PROMPT = 4000
"""Characters of a conversation, its answers included; tokens where a prompt is given as tokens."""

UPLOAD_MEGABYTES = 50
"""The largest file that may be opened."""

MODELS = tuple(PAIRS)
"""The targets on offer."""

LEVELS = ("run", "dense")
"""The recording levels on offer; the third decodes every position up to 31 times over, while others wait."""

MOST_QUEUED = 8
"""Runs that may wait or decode at a time."""

MOST_QUEUED_OF_ONE = 1
"""Those of one session."""

KEPT_OF_ONE = 20
"""Recordings of one session; the oldest go first."""

KEPT_OVERALL = 400
"""Recordings of all sessions together."""

KEPT_HOURS = 24
"""A recording goes when it is older than this."""

PATH = re.compile(r"(?<![\w:/.~])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\'\"`:;,()<>]+)+[/\\]?")
"""What looks like a path of this machine; an address of the web and words with a stroke between them do not."""
ROOTS = (Path(__file__).parents[1], Path.home(), Path(tempfile.gettempdir()))


class PublicError(ModelError):
    """What public mode does not allow; the text says what was asked, what is allowed and what to do."""


def check(request: Request) -> None:
    """Errors: `PublicError` for a request beyond the bounds, in public mode."""
    if not is_public():
        return
    if request.target not in MODELS or request.models is not None:
        raise PublicError(f"This dashboard runs listed models only: {', '.join(MODELS)}. Choose one of them.")
    if request.max_new_tokens > MOST_NEW_TOKENS:
        raise PublicError(f"{request.max_new_tokens} new tokens were asked for; this dashboard writes at most "
                          f"{MOST_NEW_TOKENS}. Ask for fewer.")
    if (size := prompt_size(request)) > LONGEST_PROMPT:
        raise PublicError(f"The prompt and what was said before it are {size} long; this dashboard takes at most "
                          f"{LONGEST_PROMPT}. Shorten the prompt, or begin a new conversation.")
    if request.level not in LEVELS:
        raise PublicError(f"Level {request.level} was asked for; this dashboard records at the levels "
                          f"{' and '.join(LEVELS)}. Choose one of them.")


def prompt_size(request: Request) -> int:
    """Characters of the conversation, or tokens of a prompt that is given as tokens."""
    if tokens := getattr(request.prompt, "tokens", None):
        return len(tokens)
    return sum(len(message["content"]) for message in request.messages)


def why_not_queued(owner: str, owners: Sequence[str]) -> str:
    """Why the session `owner` may not queue a run behind those of `owners`, empty where it may."""
    if not is_public():
        return ""
    if owners.count(owner) >= MOST_QUEUED_OF_ONE:
        return ("One run of yours is waiting or decoding already, and a session may have one at a time. Wait for its "
                "end or stop it, then try again.")
    if len(owners) >= MOST_QUEUED:
        return f"{len(owners)} runs are waiting already, the most that this dashboard takes. Try again in a minute."
    return ""


def shown(text: str) -> str:
    """`text` for the screen: in public mode a file's path becomes its name."""
    if not is_public():
        return text
    for root in sorted({*map(str, ROOTS), str(home())}, key=len, reverse=True):
        text = text.replace(root, "")
    return PATH.sub(lambda match: PurePath(match[0].replace("\\", "/")).name, text)


def sweep(now: Callable[[], float] = time.time) -> None:
    """Remove recordings beyond what is kept, the oldest first, and folders of sessions that have none left."""
    if not is_public():
        return
    folders = [folder for folder in session_folders().glob("*") if folder.is_dir()]
    newest = sorted(((changed(path), path) for folder in folders for path in folder.iterdir()), reverse=True)
    count: dict[Path, int] = {}
    for place, (when, path) in enumerate(newest):
        count[path.parent] = count.get(path.parent, 0) + 1
        if place >= KEPT_OVERALL or count[path.parent] > KEPT_OF_ONE or when < now() - KEPT_HOURS * 3600:
            path.unlink(missing_ok=True)
    for folder in folders:
        with suppress(OSError):  # it has recordings left, or is the one that a run is about to write to
            folder.rmdir()


def changed(path: Path) -> float:
    """When a file was last written; 0 for one that is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0

