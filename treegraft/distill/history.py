"""The diary of a training: a JSON object a step and a validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from treegraft.distill.errors import DistillError

HISTORY = "history.jsonl"


def read_history(path: Path) -> list[dict[str, Any]]:
    """The lines written so far, none where there is no file. Errors: `DistillError` for anything else than lines."""
    try:
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise DistillError(f"{path} cannot be read: {error}.") from error


def add_line(path: Path, facts: dict[str, Any]) -> None:
    """Append one entry."""
    with path.open("a") as file:
        file.write(json.dumps(facts) + "\n")


def cut_history(path: Path, step: int) -> None:
    """Forget what was written after `step`."""
    kept = [line for line in read_history(path) if line["step"] <= step]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
