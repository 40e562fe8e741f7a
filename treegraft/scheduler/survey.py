"""Recording a prompt set at level `exhaustive`, a file a prompt, so that it can go on after an interrupt and be shared
among workers."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from treegraft.jobs import run_jobs
from treegraft.models import Pair, load
from treegraft.models.errors import PromptError
from treegraft.models.pairs import DrafterSpec
from treegraft.models.target import Target
from treegraft.policies import TreeGraft
from treegraft.prompts import Prompt
from treegraft.run import DEFAULT_CONTEXT, RunError, choose_drafters, measure_costs, record
from treegraft.trace.records import CostCurve

COSTS = "costs.json"
"""Beside the traces: the cost curves that all of them share, measured before the first and alone."""
SURVEY = "survey.json"
"""Beside the traces: what was asked for."""


@dataclass(frozen=True)
class Request:
    """What all prompts of a survey have in common."""

    target: str
    drafters: Mapping[str, DrafterSpec]
    policy: Mapping[str, Any]
    max_new_tokens: int
    costs: tuple[CostCurve, ...]
    load_options: Mapping[str, Any]


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
    """Make `folder`, and note there what it is for: its files are told apart by the prompts' numbers alone.

    Errors: `RunError` for a folder of other prompts (more or fewer of the same are no others) or other settings.
    """
    path, asked = folder / SURVEY, described(request, prompts)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        before = json.loads(path.read_bytes()) if path.exists() else {}
        known = before.get("prompts", [])
        shared = min(len(known), len(prompts))
        same = asked["prompts"][:shared] == known[:shared]
        expected = asked | ({"prompts": known} if same else {})
        other = [name for name, value in expected.items() if before and before.get(name) != value]
    except (ValueError, TypeError, AttributeError) as error:
        raise RunError(f"{path} is damaged ({error}); give another --out, or remove the folder.") from None
    if other:
        raise RunError(f"{folder} was begun with other {' and '.join(other)}; give another --out, or the same options.")
    if len(known) < len(prompts):
        part = folder / f".{SURVEY}.part"
        part.write_text(json.dumps(asked, indent=1) + "\n")
        part.replace(path)


def described(request: Request, prompts: Sequence[Prompt]) -> dict[str, Any]:
    """What a survey is about, as JSON holds it; prompts by a digest."""
    drafters = {name: [spec.kind, str(spec.weights or ""), spec.settings] for name, spec in request.drafters.items()}
    digests = [hashlib.sha256(json.dumps(prompt.conversation()).encode()).hexdigest()[:16] for prompt in prompts]
    return json.loads(json.dumps({
        "target": request.target, "drafters": drafters, "policy": dict(request.policy),
        "max_new_tokens": request.max_new_tokens, "load_options": dict(request.load_options), "prompts": digests}))


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
            part = folder / f".{job.file}.part"
            part.write_bytes(content)
            part.replace(folder / job.file)
        yield job, problem


def work(job: Job) -> tuple[bytes, str]:
    """The trace of one prompt, or the reason why there is none. Runs in a worker, perhaps on another machine.

    Raises `KeyboardInterrupt` where the recording was interrupted: part of a trace is no result.
    """
    request = job.request
    pair, prompt = loaded(request), job.prompt
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, job.file)
            asked = prompt.conversation() if prompt.history else prompt.turns[0]
            run = record(pair, asked, TreeGraft(**request.policy), drafters=list(request.drafters), out=path,
                         max_new_tokens=request.max_new_tokens, costs=request.costs, level="exhaustive",
                         group=job.prompt.group, index=job.number).run
            probed = sum(drafter.scores_tokens for drafter in pair.drafters.values())
            if run.end.reason == "interrupted" or len(run.probes) < probed * (len(run.output) - 1):
                raise KeyboardInterrupt
            return path.read_bytes(), ""
    except (RunError, PromptError) as error:
        return b"", str(error)


_pairs: list[tuple[tuple, Pair]] = []


def loaded(request: Request) -> Pair:
    """The pair of a survey, loaded once a worker."""
    wanted = (request.target, request.drafters, request.load_options)
    if not _pairs or _pairs[0][0] != wanted:
        _pairs[:] = [(wanted, load(request.target, request.drafters, **request.load_options))]
    return _pairs[0][1]


def curves(pair: Pair, policy: TreeGraft, drafters: Sequence[str], folder: Path) -> tuple[CostCurve, ...]:
    """The cost curves of a survey: those in `folder`, else measured now."""
    path = folder / COSTS
    if path.exists():
        try:
            return tuple(msgspec.json.decode(path.read_bytes(), type=list[CostCurve]))
        except msgspec.DecodeError as error:
            raise RunError(f"{path} is damaged ({error}); remove it and run again.") from None
    chosen = choose_drafters(pair, policy, drafters)
    found = measure_costs(Target(pair.target.cached(DEFAULT_CONTEXT)), chosen)
    path.write_bytes(msgspec.json.encode(found))
    return tuple(found)
