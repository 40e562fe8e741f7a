"""`treegraft values` and `treegraft distill-scheduler`: from a prompt set to a trained scheduler."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treegraft.settings import SettingError
from treegraft.shell import console, counting_bar, drafter_specs, fail, interruptible, load_pair, refusing, say

if TYPE_CHECKING:
    from treegraft.policies import Policy
    from treegraft.prompts import Prompt
    from treegraft.scheduler.dataset import Dataset
    from treegraft.scheduler.network import Scheduler
    from treegraft.scheduler.report import Report
    from treegraft.scheduler.survey import Request
    from treegraft.scheduler.values import Values

SHORTEST_FOLDER = 2
"""Recorded prompts that training needs at least: some must be held out."""

REPORT = "report.json"


def values(
    out: Annotated[Path, typer.Option(help="The folder for the traces; the same one to go on.", show_default=False)],
    target: Annotated[str, typer.Option(help="A named target, a hub id, a folder or a GGUF file.")] = "smollm2",
    drafter: Annotated[list[str] | None, typer.Option(
        help="Twice: the weak drafter, then the strong one.")] = None,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting of treegraft, or DRAFTER.NAME=VALUE.")] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="A file with prompts; by default the bundled ones.")] = None,
    category: Annotated[str, typer.Option(help="Bundled prompts of this category, or `all`.")] = "all",
    split: Annotated[str, typer.Option(help="Only `tuning` or `held_out` prompts of the bundled ones.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many prompts.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=2, help="Longest answer, in tokens.")] = 64,
    engine: Annotated[str, typer.Option(help="local, or ray: an existing Ray cluster.")] = "local",
    workers: Annotated[int, typer.Option(min=1, help="Prompts at once.")] = 1,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cuda:1, mps or cpu.")] = None,
) -> None:
    """Record prompts under every choice of calls, for `treegraft distill-scheduler` and exact what-ifs."""
    from treegraft.cli import choose_prompts, split_settings
    from treegraft.policies import TreeGraft

    bundled = None if prompt_file else category
    prompts = choose_prompts(None, prompt_file, None, bundled, split if bundled else "", limit, raw=False)
    of_policy, of_drafters = split_settings(settings or [])
    with refusing(SettingError):
        policy = TreeGraft.from_text({"schedule": "always"} | of_policy)
    names = drafter or ["lookup", "strong"]
    specs = drafter_specs(target, names, of_drafters)
    if len(specs) != len(TreeGraft.roles):
        fail(f"--drafter was given {len(names)} times; treegraft takes two: the weak drafter, then the strong one.")
    options = {"dtype": dtype, "device": device}
    pair = load_pair(target, names, of_drafters, **options)
    from treegraft.prompt_jobs import Models, lend, shared_costs
    from treegraft.run import RunError
    from treegraft.scheduler.survey import COSTS, Request, claim
    request = Request(Models(target, specs, options), policy.settings, max_new_tokens, ())
    lend(request.models, pair)
    with interruptible("what is finished is kept; the same command goes on from there."):
        with refusing(RunError, OSError):
            claim(request, prompts, out)
            request = replace(request, costs=shared_costs(pair, policy, list(specs), out / COSTS))
        run_survey(request, prompts, out, engine, workers)


def run_survey(request: Request, prompts: Sequence[Prompt], out: Path, engine: str, workers: int) -> None:
    """Record what is missing, with a progress bar, and say what there is."""
    from treegraft.jobs import JobError
    from treegraft.models.errors import ModelError
    from treegraft.run import RunError
    from treegraft.scheduler.survey import missing, survey

    jobs, left_out = missing(request, prompts, out), 0
    with refusing(JobError, ModelError, RunError, OSError), counting_bar("recording", len(jobs)) as advance:
        for job, problem in survey(jobs, out, engine=engine, workers=workers):
            if problem:
                left_out += 1
                say("left out: ", "yellow", f"{job}: {problem}")
            advance()
    console().print(f"{out}: {len(prompts) - left_out} of {len(prompts)} prompts recorded. Train on them with "
                    f"`treegraft distill-scheduler {out} --out FOLDER`, or look at one with `treegraft whatif`.")


def distill_scheduler(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="What `treegraft values` wrote.")],
    out: Annotated[Path, typer.Option(help="The folder for the scheduler.", show_default=False)],
    held_out: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of prompts to report on.")] = 0.3,
    test: Annotated[list[Path] | None, typer.Option(
        help="Folders with other prompts to report on, instead of a share of these.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the split and of the training.")] = 0,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="NAME=VALUE", help="Another setting of treegraft than the recorded one.")] = None,
) -> None:
    """Train TreeGraft's scheduler on recorded values, and report how it decides on held-out prompts."""
    import numpy as np

    from treegraft.analysis.recorded import NotRecorded
    from treegraft.scheduler.dataset import Dataset, DatasetError
    from treegraft.scheduler.files import SchedulerError, save
    from treegraft.scheduler.report import report
    from treegraft.trace import TraceError

    refusals = (NotRecorded, DatasetError, SchedulerError, SettingError, TraceError, OSError)
    with refusing(*refusals), interruptible("run the command again."):
        known = read_values(folders, settings or [])
        first_test = len(known)
        known += read_values(test, settings or []) if test else []
        rows = Dataset.concatenate([one.dataset(number) for number, one in enumerate(known)])
        numbers = np.arange(len(known))
        learn, kept = ((rows.of_prompts(numbers[:first_test]), rows.of_prompts(numbers[first_test:])) if test
                       else rows.split(held_out, seed))
        scheduler = trained(learn, rows, out.name, seed, known)
        sides = [[known[number] for number in sorted(set(part.prompt.tolist()))] for part in (learn, kept)]
        outcome = report(scheduler, kept)
        save(scheduler, out)
        tell(out, scheduler, outcome, *sides, rows)


def read_values(folders: Sequence[Path], settings: Sequence[str]) -> list[Values]:
    """The values along every recorded run. Errors: `NotRecorded`, `TraceError`, `SettingError`."""
    from treegraft import trace
    from treegraft.analysis.whatif import WhatIf, change
    from treegraft.scheduler.values import Values

    files = [file for folder in folders for file in sorted(folder.glob("*.jsonl*"))]
    if len(files) < SHORTEST_FOLDER:
        fail(f"{', '.join(map(str, folders))}: {len(files)} recorded prompts; needed: {SHORTEST_FOLDER} or more. "
             "Record some with `treegraft values --out FOLDER`.")
    found = []
    with counting_bar("reading", len(files)) as advance:
        for file in files:
            for run in trace.open(file).runs:
                whatif = WhatIf(run)
                found.append(Values(whatif, change(whatif.policy, **typed(whatif.policy, settings))))
            advance()
    return found


def typed(policy: Policy, texts: Sequence[str]) -> dict[str, Any]:
    """The values of `NAME=VALUE` texts. Errors: `SettingError`."""
    from treegraft.cli import policy_settings

    wanted = policy_settings(texts)
    made = type(policy).from_text(wanted).settings
    return {name: made[name] for name in wanted}


def trained(learn: Dataset, rows: Dataset, name: str, seed: int, known: Sequence[Values]) -> Scheduler:
    """The scheduler, trained on `learn`, with a word on where its rows come from."""
    from treegraft.scheduler.train import train

    run = known[0].whatif.run
    provenance = {
        "command": shlex.join(["treegraft", *sys.argv[1:]]), "target": run.header.target.name,
        "drafters": [drafter.name for drafter in run.header.drafters], "policy": known[0].policy.settings,
        "recorded prompts": len(known), "impossible states left out": rows.impossible,
        "target_us": run.header.clock.target, "strong_us": run.header.clock.strong}
    scheduler, _ = train(learn, name=name, seed=seed, provenance=provenance)
    return scheduler


def tell(out: Path, scheduler: Scheduler, outcome: Report, learn: Sequence[Values], test: Sequence[Values],
         rows: Dataset) -> None:
    """Print the report and keep it beside the scheduler."""
    from treegraft.scheduler.endpoints import best_mask, compare, gain
    from treegraft.view.scheduler_tables import scheduler_report, speed_table

    for one in test:
        one.whatif.use(scheduler)
    mask = best_mask(learn)
    groups = {group: [one for one in test if one.whatif.run.header.group == group]
              for group in dict.fromkeys(one.whatif.run.header.group for one in test)}
    speeds = {"all": compare(test, mask)} | {name: compare(part, mask) for name, part in groups.items() if name}
    screen = console()
    for part in (*scheduler_report(outcome), speed_table(speeds)):
        screen.print(part)
    facts = {"report": asdict(outcome), "states": len(rows), "impossible": rows.impossible,
             "gain over the better endpoint": {name: gain(found, "scheduler") for name, found in speeds.items()},
             "speeds": {name: [asdict(one) for one in found] for name, found in speeds.items()}}
    (out / REPORT).write_text(json.dumps(facts, indent=1) + "\n")
    screen.print(f"{out}: the scheduler, and this report as {REPORT}.")
