"""One prompt of a comparison, decoded by every policy and by plain decoding. Runs in a worker, perhaps on another
machine.

The policies and plain decoding take turns on the same prompt, another one first for each prompt, and the time of plain
decoding goes into every trace as its baseline: a machine that is busy is busy for both sides of a ratio.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from treegraft.batch import REFUSALS, answer
from treegraft.models import Pair
from treegraft.policy_text import ChosenPolicy, parse_policy
from treegraft.prompt_jobs import Models, loaded
from treegraft.prompts import Prompt
from treegraft.run import record
from treegraft.trace.records import Baseline, CostCurve
from treegraft.trace.runs import Run
from treegraft.trace.writer import Writer

PLAIN = "plain"
"""The row that all others are compared with."""

WARM_UP_TOKENS = 8
"""New tokens of the decode that each policy does first in a worker, and that is dropped."""


@dataclass(frozen=True)
class Request:
    """What all prompts of a comparison have in common: `costs` are those that a policy decides by, by its text."""

    models: Models
    max_new_tokens: int
    costs: Mapping[str, tuple[CostCurve, ...]]


@dataclass(frozen=True)
class Job:
    """One prompt, by its number in the set, and the policies that have no trace of it yet."""

    request: Request
    policies: tuple[str, ...]
    number: int
    prompt: Prompt

    def __str__(self) -> str:
        return f"prompt {self.prompt.id}"


@dataclass(frozen=True)
class Result:
    """The trace file of each policy, with a run a turn; none where there is a `problem` with the first turn."""

    traces: Mapping[str, bytes]
    problem: str = ""


def work(job: Job) -> Result:
    """Decode all turns of the prompt by all policies of the job, and plainly.

    Raises `KeyboardInterrupt` where a decode was interrupted: part of a run is no result.
    """
    policies = prepared(job)
    turns, problem = decode_turns(job, policies)
    traces = {text: packed([turn[text] for turn in turns]) for text in job.policies} if turns else {}
    return Result(traces, problem)


def decode_turns(job: Job, policies: Sequence[ChosenPolicy]) -> tuple[list[dict[str, Run]], str]:
    """The runs of each turn by policy, and what kept a turn, and those after it, from being decoded.

    All policies are asked the same: in the chat are the answers of plain decoding.
    """
    turns: list[dict[str, Run]] = []
    answers: list[str] = []
    for turn in range(len(job.prompt.turns)):
        try:
            turns.append(decode_turn(job, policies, turn, answers))
        except REFUSALS as error:
            return turns, f"turn {turn + 1}: {error}" if turn else str(error)
        answers.append(answer(turns[-1][PLAIN]))
    return turns, ""


def decode_turn(job: Job, policies: Sequence[ChosenPolicy], turn: int, answers: Sequence[str]) -> dict[str, Run]:
    """One turn by each policy, one after another, each with the time of plain decoding beside its own."""
    gc.collect()
    first = (job.number + turn) % len(policies)
    runs = {chosen.text: decode(job, chosen, turn, answers) for chosen in (*policies[first:], *policies[:first])}
    end = runs[PLAIN].end
    for text, run in runs.items():
        if text != PLAIN:
            run.end.baseline = Baseline(tokens=end.new_tokens, microseconds=end.microseconds)
    return runs


def decode(job: Job, chosen: ChosenPolicy, turn: int, answers: Sequence[str], new_tokens: int | None = None) -> Run:
    """One recorded decode."""
    prompt = job.prompt
    asked = prompt.conversation(answers) if answers or prompt.history else prompt.turns[0]
    run = record(chosen.pair, asked, chosen.policy, drafters=chosen.drafters, group=prompt.category, index=job.number,
                 turn=turn, max_new_tokens=new_tokens or job.request.max_new_tokens,
                 costs=job.request.costs.get(chosen.text, ())).run
    if run.end.reason == "interrupted":
        raise KeyboardInterrupt
    return run


def packed(runs: Iterable[Run]) -> bytes:
    """The runs as a trace file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "runs.jsonl.zst")
        with Writer(path) as writer:
            for run in runs:
                writer.write(run.header)
                writer.pieces(run.pieces)
                for part in (run.prefill, *run.records, run.end):
                    writer.write(part)
        return path.read_bytes()


@dataclass(frozen=True)
class Warm:
    """The policies that a worker has warmed up, by their texts, and the pair that they run on."""

    pair: Pair
    policies: dict[str, ChosenPolicy]


_warm: list[Warm] = []


def prepared(job: Job) -> list[ChosenPolicy]:
    """Plain decoding and the policies of the job, each warmed up once a worker on the first prompt that it gets."""
    pair = loaded(job.request.models)
    if not _warm or _warm[0].pair is not pair:
        _warm[:] = [Warm(pair, {})]
    known = _warm[0].policies
    policies = [known.get(text) or parse_policy(text, pair) for text in dict.fromkeys([PLAIN, *job.policies])]
    known.update({chosen.text: chosen for chosen in policies if chosen.text in known or warmed_up(job, chosen)})
    return policies


def warmed_up(job: Job, chosen: ChosenPolicy) -> bool:
    """Make a short decode, so that the first one that counts does not pay for what happens once."""
    try:
        decode(job, chosen, 0, (), WARM_UP_TOKENS)
    except REFUSALS:
        return False
    return True
