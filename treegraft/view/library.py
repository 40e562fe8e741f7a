"""The traces that the dashboard offers: the bundled demos, and what was recorded with it."""

from __future__ import annotations

from pathlib import Path

from treegraft.home import recordings

DEMOS = Path(__file__).parents[2] / "assets" / "demo"
OPENING = "treegraft"
"""The demo that the dashboard opens with."""
ENDINGS = (".jsonl.zst", ".jsonl")


def traces() -> dict[str, Path]:
    """Traces by name: demos, then recordings from the newest to the oldest. A demo hides a recording of its name."""
    demos = sorted(_traces_in(DEMOS), key=lambda path: (name_of(path) != OPENING, path))
    own = sorted(_traces_in(recordings()), key=lambda path: path.stat().st_mtime, reverse=True)
    found: dict[str, Path] = {}
    for path in [*demos, *own]:
        found.setdefault(name_of(path), path)
    return found


def name_of(path: Path) -> str:
    """The name of a trace file without its ending."""
    return next((path.name.removesuffix(ending) for ending in ENDINGS if path.name.endswith(ending)), path.stem)


def title_of(name: str) -> str:
    """A trace's name as a title."""
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def _traces_in(folder: Path) -> list[Path]:
    return [path for ending in ENDINGS for path in folder.glob(f"*{ending}")] if folder.is_dir() else []
