"""The curves of trainings as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treegraft.distill.errors import DistillError
from treegraft.distill.history import HISTORY, read_history
from treegraft.view.training import training_figure


def draw(folders: Sequence[Path], out: Path) -> None:
    """Draw the trainings in `folders` into `out`, one file that needs no network. Errors: `DistillError`."""
    if out.suffix != ".html":
        raise DistillError(f"--out was {out}; its name must end in .html. A browser opens it.")
    histories = {}
    for folder in folders:
        name = folder.name if folder.name not in histories else str(folder)
        histories[name] = read_history(folder / "training" / HISTORY)
        if not any("kl" in line for line in histories[name]):
            raise DistillError(f"{folder} has no validation in training/{HISTORY} yet. Give folders that "
                               "`treegraft distill lm` or `eagle3` wrote.")
    training_figure(histories).write_html(out)
