"""The traces that the dashboard offers: the bundled demos, and what was recorded with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from treegraft.analysis.text import is_unicode, visible
from treegraft.home import recordings

DEMOS = Path(__file__).parents[2] / "assets" / "demo"
OPENING = "treegraft"
"""The demo that the dashboard opens with."""
ENDINGS = (".jsonl.zst", ".jsonl")


def traces() -> dict[str, Path]:
    """Traces by name: demos, then recordings from the newest to the oldest. A demo hides a recording of its name."""
    demos = sorted(_traces_in(DEMOS), key=lambda path: (name_of(path) != OPENING, path))
    own = sorted(_traces_in(recordings()), key=changed_at, reverse=True)
    found: dict[str, Path] = {}
    for path in [*demos, *own]:
        found.setdefault(name_of(path), path)
    return found


def name_of(path: Path) -> str:
    """The name of a trace file without its ending; a file that is nothing but an ending keeps it."""
    return next((path.name.removesuffix(ending) for ending in ENDINGS if path.name.endswith(ending)), "") or path.stem


def title_of(name: str) -> str:
    """A trace's name as a title, with what acts or cannot be seen escaped."""
    words = visible(name.replace("_", " ").replace("-", " ").strip())
    return words[:1].upper() + words[1:]


def titles_of(names: Iterable[str]) -> dict[str, str]:
    """A title for each name; those that would share one keep their names."""
    titles = {name: title_of(name) for name in names}
    count = Counter(titles.values())
    return {name: title if count[title] == 1 else visible(name) for name, title in titles.items()}


def changed_at(path: Path) -> float:
    """When a file was last written, in seconds since the epoch; 0 for one that has gone in the meantime."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _traces_in(folder: Path) -> list[Path]:
    return [path for ending in ENDINGS for path in folder.glob(f"*{ending}")
            if path.is_file() and is_unicode(path.name)]  # other names can stand in no address and on no page
