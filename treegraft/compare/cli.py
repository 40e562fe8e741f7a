"""`treegraft compare`: policies side by side on many prompts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treegraft.settings import SettingError
from treegraft.shell import console, counting_bar, drafter_specs, interruptible, load_pair, refusing, say

if TYPE_CHECKING:
    from treegraft.compare.folder import Comparing
    from treegraft.prompts import Prompt


def compare(
    out: Annotated[Path, typer.Option(help="The folder for all results; the same one to go on.", show_default=False)],
    policy: Annotated[list[str] | None, typer.Option(
        help="NAME, NAME@DRAFTER+DRAFTER, or either with :SETTING=VALUE,DRAFTER.SETTING=VALUE,...; once for each. By "
             "default all that fit.")] = None,
    target: Annotated[str, typer.Option(help="A named target, a hub id, a folder or a GGUF file.")] = "smollm2",
    drafter: Annotated[list[str] | None, typer.Option(
        help="A drafter to load, by name or place; once for each. By default all of a named target.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(
        help="A .txt, .json or .jsonl file with prompts, such as Spec-Bench's question.jsonl; by default the bundled "
             "ones.")] = None,
    category: Annotated[str, typer.Option(help="Only prompts of this category, or `all`.")] = "all",
    split: Annotated[str, typer.Option(help="Only prompts of this split; the bundled ones are `tuning` or "
                                            "`held_out`.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many prompts.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=2, help="Longest answer, in tokens.")] = 120,
    engine: Annotated[str, typer.Option(help="local, or ray: an existing Ray cluster.")] = "local",
    workers: Annotated[int, typer.Option(
        min=0, help="Prompts at once; with --engine ray also 0: as many as the cluster takes.")] = 1,
    dtype: Annotated[str | None, typer.Option(
        help="float32, bfloat16 or float16; by default what the device is fast in.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cuda:1, mps or cpu; by default the first there is.")] = None,
) -> None:
    """Decode prompts with several policies and plainly: traces, one table, plots."""
    from treegraft.prompts import PromptError

    with refusing(PromptError):
        prompts = choose(prompt_file, "" if category == "all" else category, split)[:limit]
    specs = drafter_specs(target, drafter or None, {})
    options = {"dtype": dtype, "device": device}
    with interruptible("what is finished is kept; the same command goes on from there."):
        pair = load_pair(target, drafter or None, {}, **options)
        from treegraft.compare.run import plan
        from treegraft.prompt_jobs import Models
        from treegraft.run import RunError

        with refusing(RunError, SettingError, OSError):
            comparing = plan(Models(target, specs, options), pair, policy or [], prompts, out, max_new_tokens)
        run(comparing, engine, workers)


def choose(file: Path | None, category: str, split: str) -> list[Prompt]:
    """The prompts of a file, or the bundled ones, of one category and split if given. Errors: `PromptError`."""
    from treegraft.prompts import bundled, load, select

    return select(load(file), category, split, f"the prompts of {file}") if file else bundled(category, split)


def run(comparing: Comparing, engine: str, workers: int) -> None:
    """Decode what is missing and tell what came of it, with progress bars."""
    from treegraft.compare.report import on_terminal
    from treegraft.compare.run import decode_missing, read, write
    from treegraft.jobs import JobError
    from treegraft.models.errors import ModelError
    from treegraft.run import RunError
    from treegraft.trace import TraceError

    screen = console()
    with refusing(JobError, ModelError, RunError, TraceError, OSError):
        jobs = comparing.jobs()
        with counting_bar("decoding", len(jobs)) as advance:
            for job, problem in decode_missing(comparing, jobs, engine=engine, workers=workers):
                if problem:
                    say("left out: ", "yellow", f"{job}: {problem}")
                advance()
        with counting_bar("reading", len(comparing.prompts)) as advance:
            comparison = read(comparing, advance)
        for part in on_terminal(comparison):
            screen.print(part)
        for problem in write(comparing, comparison):
            say("warning: ", "yellow", problem)
    screen.print(f"{comparing.folder}: a trace of each policy, table.md, table.csv, table.json, and the plots.")
