"""What the commands share: printing, refusing, and loading a pair under a progress bar."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from treegraft.analysis.text import visible
from treegraft.settings import SettingError

if TYPE_CHECKING:
    from treegraft.models import Pair
    from treegraft.models.pairs import DrafterSpec

PIPE_WIDTH = 1000
"""Columns where the output is no terminal: nothing is cut or wrapped."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells expect it."""


def console(stderr: bool = False) -> Console:
    """Where to print; texts are never read as markup."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=stream, markup=False, emoji=False, highlight=False, width=width)


def say(kind: str, style: str, message: str) -> None:
    """One line to the side of the output, unbroken, with nothing in it that steers the terminal."""
    console(stderr=True).print(Text.assemble((kind, style), visible(message)), soft_wrap=True)


def fail(message: object) -> NoReturn:
    """End with one line that says what is wrong."""
    say("error: ", "bold red", str(message))
    raise typer.Exit(2)


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turn these errors, which speak to the user, into the end of the command."""
    try:
        yield
    except kinds as error:
        fail(error)


def pick(kind: str, name: str, known: Sequence[str]) -> str:
    """`name` if it is known; else end, with the nearest known name."""
    if name in known:
        return name
    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    fail(f"there is no {kind} {name!r}.{hint} Known: {', '.join(known)}.")


def load_pair(target: str, drafters: list[str] | None, settings: dict[str, dict[str, str]], **options: Any) -> Pair:
    """The target with these drafters (None: all that it has), which get these settings."""
    specs = drafter_specs(target, drafters, settings)
    from treegraft.models.errors import ModelError

    with refusing(ModelError, SettingError), progress_bar() as progress:
        from treegraft.models.loader import load

        return load(target, specs, progress=progress, **options)


def drafter_specs(target: str, drafters: list[str] | None,
                  settings: dict[str, dict[str, str]]) -> dict[str, DrafterSpec]:
    """How to make these drafters of the target (None: all that it has), with these settings."""
    from treegraft.drafters import drafter_class
    from treegraft.models.errors import ModelError
    from treegraft.models.pairs import FREE_DRAFTERS, PAIRS

    refuse_typo("target", target, list(PAIRS))
    known = PAIRS[target].drafters if target in PAIRS else FREE_DRAFTERS
    for name in drafters or []:
        refuse_typo("drafter", name, list(known))
    with refusing(ModelError, SettingError):
        from treegraft.models.loader import wanted_drafters

        wanted = dict(wanted_drafters(drafters, known))
        for name, values in settings.items():
            spec = wanted[pick("drafter", name, list(wanted))]
            made = drafter_class(spec.kind).from_text(values).settings
            wanted[name] = replace(spec, settings=spec.settings | {name: made[name] for name in values})
    return wanted


def refuse_typo(kind: str, name: str, known: Sequence[str]) -> None:
    """End for a name that nearly is a known one; others may be hub ids or paths."""
    if name not in known and not os.path.exists(name) and get_close_matches(name, known):
        pick(kind, name, known)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float | None], None]]:
    """A callback that is told what is being done and how much of it, and shows a bar on a terminal."""
    screen = console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bars:
        task = bars.add_task("starting", total=None)
        yield lambda stage, done: bars.update(task, description=stage, total=None if done is None else 1.0,
                                              completed=done or 0.0)


@contextmanager
def interruptible(advice: str) -> Iterator[None]:
    """End on Ctrl-C with a word on how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted: ", "yellow", advice)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def counting_bar(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar, and the function that moves it on by one."""
    screen = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bars:
        task = bars.add_task(what, total=total)
        yield lambda: bars.advance(task)
