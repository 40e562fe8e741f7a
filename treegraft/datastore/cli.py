"""`treegraft datastore`: make a datastore of text files, for the policy rest."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from treegraft.scheduler.cli import interruptible
from treegraft.shell import console, progress_bar, refuse_typo, refusing


def datastore(
    texts: Annotated[list[Path], typer.Argument(metavar="TEXT...", help="Text files in UTF-8.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The folder for the datastore.", show_default=False)],
    target: Annotated[str, typer.Option(help="A named target, a hub id, a folder or a GGUF file.")] = "smollm2",
    force: Annotated[bool, typer.Option("--force", help="Replace the datastore if it exists.")] = False,
    trust_remote_code: Annotated[bool, typer.Option(
        "--trust-remote-code", help="Run Python code that the model's authors ship with it.")] = False,
) -> None:
    """Make a datastore of texts for a target, to draft from: --policy rest --drafter FOLDER."""
    from treegraft.datastore.files import check_place
    from treegraft.models.errors import ModelError
    from treegraft.models.pairs import PAIRS

    refuse_typo("target", target, list(PAIRS))
    with refusing(ModelError), interruptible("nothing was written."), progress_bar() as progress:
        check_place(out, force)
        from treegraft.datastore.build import make
        from treegraft.models.fetch import fetch
        from treegraft.models.weights import locate, read_config, read_tokenizer

        source = locate(fetch(PAIRS[target].target, progress) if target in PAIRS else target)
        rows = read_config(source, trust_remote_code).get_text_config().vocab_size
        info = make(texts, read_tokenizer(source, trust_remote_code), rows, target if target in PAIRS else source.name,
                    out, shlex.join(["treegraft", *sys.argv[1:]]), progress)
    console().print(f"{out}: {info.tokens} tokens of {info.texts} text{'s' * (info.texts > 1)}. Draft from it with "
                    f"`--policy rest --drafter {out}`.", soft_wrap=True)
