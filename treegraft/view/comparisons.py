"""The results of `treegraft compare` that the dashboard offers: the bundled one, and those in the user's folder."""

from __future__ import annotations

from pathlib import Path

from treegraft.home import home

BUNDLED = Path(__file__).parents[2] / "assets" / "comparisons"
RESULT = "table.json"


def comparisons() -> dict[str, Path]:
    """Folders of finished comparisons by name; a bundled one hides one of its name."""
    found: dict[str, Path] = {}
    for place in (BUNDLED, home() / "comparisons"):
        folders = sorted(place.iterdir()) if place.is_dir() else []
        for folder in folders:
            if (folder / RESULT).is_file():
                found.setdefault(folder.name, folder)
    return found
