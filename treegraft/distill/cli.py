"""`treegraft distill`: write a corpus with the target, train drafters on it, look at the curves."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from treegraft.distill.errors import DistillError
from treegraft.shell import INTERRUPTED, console, fail, load_pair, progress_bar, refusing, say

if TYPE_CHECKING:
    from treegraft.distill.job import Job
    from treegraft.distill.train import Outcome, Recipe, Validation
    from treegraft.distill.train import Progress as Training

app = typer.Typer(no_args_is_help=True, help="Train drafters for a target from text that the target itself writes.")

DRAFT_VOCAB = 16384

Target = Annotated[str, typer.Option(help="A named target, a hub id, a folder or a GGUF file.")]
CorpusFile = Annotated[Path, typer.Option(help="What `treegraft distill corpus` wrote.", show_default=False)]
Folder = Annotated[Path, typer.Option(help="The folder for the drafter; the same one to go on after an interrupt.",
                                      show_default=False)]
Epochs = Annotated[float, typer.Option(min=0.01, help="How often the corpus is seen; 0.5 is half of it once.")]
BatchTokens = Annotated[int, typer.Option(min=1, help="Most tokens in a step, padding counted.")]
Rate = Annotated[float, typer.Option(min=1e-6, max=1.0, help="Peak of the cosine, for Muon; AdamW gets a fifth.")]
Warmup = Annotated[int, typer.Option(min=0, help="Steps of linear warm-up.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the order of the text.")]
HeldOut = Annotated[int, typer.Option(min=1, help="Conversations to validate on.")]
ValidateEvery = Annotated[int, typer.Option(min=1, help="Steps between validations.")]
Patience = Annotated[int, typer.Option(min=1, help="Validations without a better one before it stops early.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first conversations of the corpus.")]
States = Annotated[Path | None, typer.Option(
    help="Keep the target's hidden states here, for other students on the same corpus; by default in OUT/training.")]
Recompute = Annotated[bool, typer.Option("--recompute", help="Keep no hidden states: no disk, more time.")]
Dtype = Annotated[str | None, typer.Option(
    help="Of the target: float32, bfloat16 or float16; by default what the device is fast in.")]
Device = Annotated[str | None, typer.Option(help="cuda, cuda:1, mps or cpu; by default the first there is.")]


@app.command()
def corpus(
    out: Annotated[Path, typer.Option(help="The corpus, .jsonl or .jsonl.zst; an existing one is continued.",
                                      show_default=False)],
    conversations: Annotated[int, typer.Option(min=1, help="How many to write.")] = 10_000,
    target: Target = "smollm2", seed: Seed = 0,
    rows: Annotated[int, typer.Option(min=1, max=1024, help="Texts that are written side by side.")] = 32,
    max_question: Annotated[int, typer.Option(min=2, help="Longest question, in tokens.")] = 128,
    max_answer: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 256,
    dtype: Dtype = None, device: Device = None,
) -> None:
    """Let the target invent questions and answer them."""
    pair = load_pair(target, ["lookup"], {}, dtype=dtype, device=device)
    from treegraft.distill.corpus import make_corpus

    with refusing(*refusals()), resumable(), progress_bar() as progress:
        counts = make_corpus(pair.target, out, conversations, seed=seed, rows=rows, max_question=max_question,
                             max_answer=max_answer, progress=progress)
    console().print(f"{out}: {counts.conversations:,} conversations, {counts.answer_tokens:,} answer tokens; "
                    f"{counts.dropped:,} questions were dropped.")


@app.command()
def lm(
    context: typer.Context, corpus: CorpusFile, out: Folder, target: Target = "smollm2",
    layers: Annotated[str, typer.Option(help="Target layers to copy, from 0, such as 0,5,11; or how many.")] = "6",
    start_from: Annotated[Path | None, typer.Option(help="The folder of a shallow copy to train further.")] = None,
    epochs: Epochs = 3.0, batch_tokens: BatchTokens = 4096, learning_rate: Rate = 4e-3,
    warmup: Warmup = 40, seed: Seed = 0, held_out: HeldOut = 128, validate_every: ValidateEvery = 100,
    patience: Patience = 5, limit: Limit = None, states: States = None, recompute: Recompute = False,
    dtype: Dtype = None, device: Device = None,
) -> None:
    """Train a shallow copy of the target."""
    from treegraft.distill.train import Recipe

    recipe = Recipe(epochs, batch_tokens, learning_rate, warmup, seed, held_out, validate_every, patience)
    with refusing(*refusals()), job_for(context, recipe) as job:
        from treegraft.distill.job import distill_lm
        from treegraft.distill.lm import spread_layers

        wanted = read_numbers("layers", layers)
        if "," not in layers:
            wanted = spread_layers(job.target.model.config.get_text_config().num_hidden_layers, wanted[0])
        report(out, distill_lm(job, wanted, start_from))


@app.command()
def eagle3(
    context: typer.Context, corpus: CorpusFile, out: Folder, target: Target = "smollm2",
    draft_vocab: Annotated[int | None, typer.Option(
        min=1, help=f"Tokens that the head can say, the most frequent ones; by default {DRAFT_VOCAB}.")] = None,
    aux_layers: Annotated[str | None, typer.Option(
        help="Target layers whose outputs it reads, from 0; by default a low, a middle and a high one.")] = None,
    unroll: Annotated[int, typer.Option(min=1, max=16, help="Steps that the head is unrolled in training.")] = 4,
    start_from: Annotated[str | None, typer.Option(
        help="A head of this target to train further: a folder or hub id, in any public layout.")] = None,
    epochs: Epochs = 3.0, batch_tokens: BatchTokens = 4096, learning_rate: Rate = 4e-3,
    warmup: Warmup = 40, seed: Seed = 0, held_out: HeldOut = 128, validate_every: ValidateEvery = 100,
    patience: Patience = 5, limit: Limit = None, states: States = None, recompute: Recompute = False,
    dtype: Dtype = None, device: Device = None,
) -> None:
    """Train an EAGLE-3 head."""
    if start_from and (draft_vocab or aux_layers):
        fail("--start-from goes on with the head's own draft vocabulary and layers: leave --draft-vocab and "
             "--aux-layers out, or start anew.")
    from treegraft.distill.train import Recipe

    recipe = Recipe(epochs, batch_tokens, learning_rate, warmup, seed, held_out, validate_every, patience)
    with refusing(*refusals()), job_for(context, recipe) as job:
        from treegraft.distill.job import distill_eagle3

        wanted = tuple(read_numbers("aux-layers", aux_layers)) if aux_layers else None
        report(out, distill_eagle3(job, draft_vocab or DRAFT_VOCAB, wanted, unroll, start_from))


@app.command()
def curve(
    folders: Annotated[list[Path], typer.Argument(help="Folders of drafters, trained or in training.")],
    out: Annotated[Path, typer.Option(help="The page to write, .html.", show_default=False)],
) -> None:
    """Draw how trainings went."""
    from treegraft.distill.curve import draw

    with refusing(DistillError):
        draw(folders, out)
    console().print(f"{out} is written.")


def read_numbers(option: str, text: str) -> list[int]:
    """Numbers from a text such as 1,14,26; ends the command for anything else."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        fail(f"--{option} was {text!r}; write layer numbers with commas between, such as 1,14,26.")


def refusals() -> tuple[type[Exception], ...]:
    """Errors that speak to the user."""
    from treegraft.models.errors import ModelError

    return DistillError, ModelError, OSError


@contextmanager
def job_for(context: typer.Context, recipe: Recipe) -> Iterator[Job]:
    """The job that a command's options ask for, under a progress bar, once the target is loaded."""
    given = context.params
    pair = load_pair(given["target"], ["lookup"], {}, dtype=given["dtype"], device=given["device"])
    from treegraft.distill.job import Job

    states = None if given["recompute"] else given["states"] or given["out"] / "training" / "states"
    with meter() as show:
        yield Job(pair.target, given["corpus"], given["out"], recipe, states, given["limit"],
                  command=command_line(context), on_progress=Telling(show), say=console(stderr=True).print)


def command_line(context: typer.Context) -> str:
    """The command with the options that the user gave."""
    words = ["treegraft", "distill", context.info_name]
    for option in context.command.params:
        source = context.get_parameter_source(option.name)
        if source is not None and source.name == "COMMANDLINE":
            words += [option.opts[0]] if option.is_flag else [option.opts[0], str(context.params[option.name])]
    return shlex.join(words)


class Telling:
    """Shows a training's progress: a bar on a terminal, a line for each validation."""

    def __init__(self, show: Callable[[str, int, int], None]) -> None:
        self._show, self._told = show, -1

    def __call__(self, training: Training) -> None:
        self._show(f"loss {training.loss:.3f}", training.step, training.steps)
        found = training.last
        if found and found.step != self._told:
            self._told = found.step
            console(stderr=True).print(f"step {found.step} of {training.steps}: {figures(found)}")


def figures(found: Validation) -> str:
    """The figures of a validation in one line."""
    top1 = ", ".join(f"{share:.1%}" for share in found.top1)
    tau = f", tau {found.tau:.2f}" if found.tau else ""
    return f"KL {found.score:.3f}, same favourite {top1}{tau}"


def report(out: Path, outcome: Outcome) -> None:
    """Say how it ended; an interrupt ends the command."""
    if outcome.best:
        console().print(f"{out}: weights of step {outcome.best.step}; {figures(outcome.best)}.")
    with resumable():
        if outcome.reason == "interrupted":
            raise KeyboardInterrupt


@contextmanager
def resumable() -> Iterator[None]:
    """Turn Ctrl-C into the end of the command, with a line on how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        say("Interrupted; ", "yellow", "the same command goes on from here.")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def meter() -> Iterator[Callable[[str, int, int], None]]:
    """A callback (what, done, of how many) that shows a bar on a terminal."""
    screen = console(stderr=True)
    columns: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
                          TimeRemainingColumn()]
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bars:
        task = bars.add_task("starting", total=None)
        yield lambda what, done, total: bars.update(task, description=what, completed=done, total=total)
