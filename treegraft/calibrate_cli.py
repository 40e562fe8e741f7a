"""`treegraft calibrate`: choose Graft's gates for a pair of models."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treegraft.settings import SettingError
from treegraft.shell import console, counting_bar, drafter_specs, fail, interruptible, load_pair, refusing, say

if TYPE_CHECKING:
    from treegraft.calibration import Calibration
    from treegraft.models import Pair
    from treegraft.policies.graft import Graft
    from treegraft.prompts import Prompt


def calibrate(
    target: Annotated[str, typer.Option(help="A named target, a hub id, a folder or a GGUF file.")] = "smollm2",
    drafter: Annotated[list[str] | None, typer.Option(
        help="Twice: the drafter, then the retriever. By default eagle3 and successors.")] = None,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting of graft, or DRAFTER.NAME=VALUE.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(
        help="A file with warm-up prompts; by default the bundled ones for tuning.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many prompts, spread over the file.")] = 16,
    max_new_tokens: Annotated[int, typer.Option(min=2, max=512, help="Longest answer, in tokens.")] = 64,
    least_auc: Annotated[float, typer.Option(
        min=0.5, max=1.0, help="No gate where confidence tells accepted from rejected worse than this.")] = 0.8,
    out: Annotated[Path | None, typer.Option(
        help="The .json file to write; by default where graft looks for that of these models.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cuda:1, mps or cpu.")] = None,
) -> None:
    """Choose where Graft's gates stand and how high, by warm-up texts, and keep that for the policy `graft`."""
    from treegraft.cli import split_settings
    from treegraft.policies.graft import Graft
    from treegraft.prompts import PromptError, bundled, load

    of_policy, of_drafters = split_settings(settings or [])
    names = drafter or ["eagle3", "successors"]
    if len(names) != len(Graft.roles):
        fail(f"--drafter was given {len(names)} time(s); graft takes two: the drafter, then the retriever.")
    if len(set(names)) < len(names):
        fail(f"--drafter {names[0]} was given twice; graft takes two different ones: the drafter, then the retriever.")
    if out and (out.suffix != ".json" or (out.exists() and not force)):
        fail(f"--out was {out}; give the name of a new .json file, or --force to replace it.")
    with refusing(SettingError, PromptError):
        policy = Graft.from_text(of_policy)
        prompts = load(prompt_file) if prompt_file else bundled(split="tuning")
    # Rows of rejected nodes depend on the trees of other rounds, which a replay cannot know.
    retriever, spec = list(drafter_specs(target, names, of_drafters).items())[1]
    if spec.kind in Graft.roles[1].kinds:
        of_drafters.setdefault(retriever, {}).setdefault("learn", "committed")
    pair = load_pair(target, names, of_drafters, dtype=dtype, device=device)
    from treegraft.calibration import CalibrationError, place, save

    with interruptible("nothing was written."), refusing(CalibrationError):
        found = survey(pair, policy, prompts[:: -(-len(prompts) // limit)], max_new_tokens, least_auc)
        path = out or place(found.target, found.drafter, found.retriever)
        save(found, path)
    tell(found, path, stored=out is None)


def survey(pair: Pair, policy: Graft, prompts: Sequence[Prompt], max_new_tokens: int, least_auc: float) -> Calibration:
    """Record, read and replay, with progress bars."""
    from treegraft.analysis.recorded import NotRecorded
    from treegraft.calibrate import Survey
    from treegraft.models.errors import ModelError
    from treegraft.run import RunError

    made, problem = Survey(policy), ""
    with refusing(RunError, ModelError, NotRecorded):
        with counting_bar("recording", len(prompts)) as advance:
            for problem in made.record(pair, prompts, list(pair.drafters), max_new_tokens):
                if problem:
                    say("left out: ", "yellow", problem)
                advance()
        if not made.runs:
            fail(f"no prompt could be answered. The last one: {problem}")
        with counting_bar("choosing", 2 * len(made.runs)) as advance:
            return made.calibrate(least_auc, shlex.join(["treegraft", *sys.argv[1:]]), advance)


def tell(found: Calibration, path: Path, stored: bool) -> None:
    """Print what was read, what was chosen, and how to use it."""
    from treegraft.view.tables import add_row, text_table

    table = text_table("depth", "positions", "accepted beyond", "AUC", "gate")
    for one in found.depths:
        area = "-" if one.auc is None else f"{one.auc:.3f}"
        gate = f"{one.chosen}, threshold {found.settings[f'tau_{one.chosen}']:g}" if one.chosen else ""
        add_row(table, str(one.depth), str(one.positions), f"{one.beyond:.1%}", area, gate)
    screen = console()
    screen.print(table)
    for name, speed in found.speeds.items():
        screen.print(f"{name}: {speed:.1f} tokens/s, estimated")
    if not found.speeds:
        screen.print("No forward was timed: thresholds by Youden's J.")
    use = "graft takes it for these models from now on" if stored else "use it with"
    screen.print(f"{path}: {use}{'; the same as' if stored else ''} {found.arguments}", soft_wrap=True)
