"""What `treegraft bench` does with a loaded pair: measure with a progress bar, print the result, write files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from treegraft.bench.errors import BenchError
from treegraft.bench.files import check_file, write
from treegraft.bench.report import PLACE, as_json, on_terminal, write_markdown
from treegraft.bench.runner import Bench, Listener, run_bench
from treegraft.models import Pair
from treegraft.models.errors import ModelError
from treegraft.prompts import Prompt
from treegraft.run import RunError
from treegraft.settings import SettingError
from treegraft.trace import TraceError

REFUSALS = (BenchError, ModelError, RunError, SettingError, TraceError)
"""Errors that speak to the user."""


class Files:
    """Where the result goes beside the terminal. Errors: `BenchError` for places that cannot be written."""

    def __init__(self, json: Path | None, markdown: Path | None) -> None:
        self.json, self.markdown = json, markdown
        if json:
            check_file(json, "--json")
        if markdown:
            check_file(markdown, "--markdown", PLACE)

    def write(self, bench: Bench) -> None:
        if self.json:
            write(self.json, as_json(bench))
        if self.markdown:
            write_markdown(self.markdown, bench)


class Meter(Listener):
    """Shows how far a benchmark is."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("starting", total=None)

    def begin(self, decodes: int) -> None:
        self._progress.update(self._task, total=decodes, completed=-1)

    def decoding(self, what: str) -> None:
        self._progress.update(self._task, description=what, advance=1)


@contextmanager
def meter(screen: Console) -> Iterator[Meter]:
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        yield Meter(progress)


def bench(pair: Pair, prompts: Sequence[Prompt], policies: Sequence[str], files: Files, *, max_new_tokens: int,
          repeats: int, screen: Console, progress: Console) -> Bench:
    """Measure, print on `screen`, write `files`. Errors: `REFUSALS`."""
    with meter(progress) as listener:
        result = run_bench(pair, prompts, policies, max_new_tokens=max_new_tokens, repeats=repeats, listener=listener)
    if not result.samples:
        raise BenchError("interrupted before every row had decoded one prompt; there is nothing to report.")
    for part in on_terminal(result):
        screen.print(part)
    files.write(result)
    if result.interrupted:
        progress.print(Text("Interrupted: these are the passes that were complete."))
    return result
