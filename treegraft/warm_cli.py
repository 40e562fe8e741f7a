"""`treegraft warm`: fill the successor rows of a target before its first run."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from treegraft.shell import console, counting_bar, fail, interruptible, load_pair, refusing, say


def warm(
    out: Annotated[Path, typer.Option(help="A new folder for the rows.", show_default=False)],
    target: Annotated[str, typer.Option(help="A named target, a hub id, a folder or a GGUF file.")] = "smollm2",
    prompts: Annotated[Path | None, typer.Option(
        help="A .txt, .json or .jsonl file; of several turns the first. By default the bundled ones.")] = None,
    split: Annotated[str, typer.Option(help="Of the bundled prompts: tuning or held_out.")] = "tuning",
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many prompts.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 64,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cuda:1, mps or cpu.")] = None,
) -> None:
    """Let a target answer prompts, and keep its successor rows as a drafter for it: --drafter FOLDER."""
    from treegraft.prompts import PromptError, bundled, load

    check_place(out)
    with refusing(PromptError):
        chosen = (load(prompts) if prompts else bundled(split=split))[:limit]
    pair = load_pair(target, ["lookup"], {}, dtype=dtype, device=device)
    from treegraft.models.errors import ModelError
    from treegraft.models.successors_files import save
    from treegraft.warm import WarmUp

    learned, problem = WarmUp(), ""
    with interruptible("nothing was written."), refusing(ModelError):
        with counting_bar("reading", len(chosen)) as advance:
            for prompt, problem in learned.read(pair, chosen, max_new_tokens):
                if problem:
                    say("left out: ", "yellow", f"{prompt.id}: {problem}")
                advance()
        if not learned.texts:
            fail(f"no prompt could be read. The last one: {problem}")
        save(learned.rows, pair.target, out, texts=learned.texts, positions=learned.positions,
             command=shlex.join(["treegraft", *sys.argv[1:]]))
    console().print(f"{out}: {len(learned.rows)} rows, from {learned.positions} positions of {learned.texts} texts. "
                    f"Use them with `--drafter {out}`.", soft_wrap=True)


def check_place(out: Path) -> None:
    """End where `out` holds something already, or cannot be made."""
    try:
        if out.is_dir() and any(out.iterdir()):
            fail(f"--out was {out}, which is not empty; give a new folder.")
        there = next(place for place in (out, *out.absolute().parents) if place.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            fail(f"--out was {out}, but {there} cannot be written into.")
    except OSError as error:
        fail(f"--out was {out}, which cannot be written: {error.strerror}.")
