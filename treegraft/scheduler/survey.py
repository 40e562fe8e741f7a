"""Recording a prompt set at level `exhaustive`, a file a prompt, so that it can go on after an interrupt and be shared
among workers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treegraft.files import write_whole
from treegraft.jobs import run_jobs
from treegraft.models.errors import PromptError
from treegraft.policies import TreeGraft
from treegraft.prompt_jobs import Models, loaded
from treegraft.prompt_jobs import claim as claim_folder
from treegraft.prompts import Prompt
from treegraft.run import RunError, record
from treegraft.trace.records import CostCurve

COSTS = "costs.json"
"""Beside the traces: the cost curves that all of them share, measured before the first and alone."""
SURVEY = "survey.json"
"""Beside the traces: what was asked for."""


@dataclass(frozen=True)
class Request:
    """What all prompts of a survey have in common."""

    models: Models
    policy: Mapping[str, Any]
    max_new_tokens: int
    costs: tuple[CostCurve, ...]


@dataclass(frozen=True)
class Job:
    """One prompt of a survey: its number in the set, and what is asked."""

    request: Request
    number: int
    prompt: Prompt

    @property
    def file(self) -> str:
        return f"{self.number:04d}.jsonl.zst"

    def __str__(self) -> str:
        return f"prompt {self.prompt.id}"


def claim(request: Request, prompts: Sequence[Prompt], folder: Path) -> None:
    """Make `folder`, and note there what it is for. Errors: `RunError` for a folder of other prompts or settings."""
    asked = {"policy": dict(request.policy), "max_new_tokens": request.max_new_tokens}
    claim_folder(folder / SURVEY, request.models.described() | asked, prompts)


def missing(request: Request, prompts: Sequence[Prompt], folder: Path) -> list[Job]:
    """The prompts that have no trace in `folder` yet."""
    jobs = [Job(request, number, prompt) for number, prompt in enumerate(prompts)]
    return [job for job in jobs if not (folder / job.file).exists()]


def survey(jobs: Sequence[Job], folder: Path, *, engine: str, workers: int) -> Iterator[tuple[Job, str]]:
    """Record the jobs' prompts into `folder`; yields each with what kept it from being recorded, empty if nothing did.

    Errors: `JobError`, `RunError`, `ModelError`.
    """
    for job, (content, problem) in run_jobs(work, jobs, engine=engine, workers=workers):
        if content:
            write_whole(folder / job.file, content)
        yield job, problem


def work(job: Job) -> tuple[bytes, str]:
    """The trace of one prompt, or the reason why there is none. Runs in a worker, perhaps on another machine.

    Raises `KeyboardInterrupt` where the recording was interrupted: part of a trace is no result.
    """
    request = job.request
    pair, prompt = loaded(request.models), job.prompt
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, job.file)
            asked = prompt.conversation() if prompt.history else prompt.turns[0]
            run = record(pair, asked, TreeGraft(**request.policy), drafters=list(request.models.drafters), out=path,
                         max_new_tokens=request.max_new_tokens, costs=request.costs, level="exhaustive",
                         group=job.prompt.group, index=job.number).run
            probed = sum(drafter.scores_tokens for drafter in pair.drafters.values())
            if run.end.reason == "interrupted" or len(run.probes) < probed * (len(run.output) - 1):
                raise KeyboardInterrupt
            return path.read_bytes(), ""
    except (RunError, PromptError) as error:
        return b"", str(error)
