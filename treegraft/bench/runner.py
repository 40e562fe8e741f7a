"""Runs a benchmark from its prompts to its result."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from treegraft.analysis.agreement import NEAR_TIE
from treegraft.bench.agreement import differences, target_margin
from treegraft.bench.errors import BenchError
from treegraft.bench.forwards import measure_forwards
from treegraft.bench.machine import Machine, describe_machine
from treegraft.bench.rows import Question, Row, bare_settings, build_rows
from treegraft.bench.samples import Difference, ForwardTime, Sample
from treegraft.bench.summary import complete
from treegraft.models import Pair
from treegraft.models.memory import keep_memory
from treegraft.models.tokenizer import encode_prompt
from treegraft.prompts import Prompt


@dataclass(frozen=True)
class Setup:
    """What was asked for."""

    target: str
    parameters: int
    dtype: str
    device: str
    date: str
    prompts: int
    prompt_tokens: int
    max_new_tokens: int
    repeats: int


@dataclass(frozen=True)
class Bench:
    """A finished or interrupted benchmark. `samples` are complete: every row has each repeat and prompt in them."""

    setup: Setup
    machine: Machine
    samples: list[Sample]
    differences: list[Difference]
    forwards: list[ForwardTime]
    interrupted: bool


class Listener:
    """Is told how far a benchmark is; does nothing with it."""

    def begin(self, decodes: int) -> None:
        """So many decodes will follow, the warm-up among them."""

    def decoding(self, what: str) -> None:
        """The next decode begins."""


def run_bench(pair: Pair, prompts: Sequence[Prompt], policies: Sequence[str] = (), *, max_new_tokens: int = 120,
              repeats: int = 5, listener: Listener | None = None) -> Bench:
    """Measure the policies and transformers' own decoding on the first turn of each prompt; see `build_rows`.

    Ctrl-C ends the measuring; what was measured until then is the result.
    Errors: `BenchError`, `SettingError`, `RunError` and `PromptError` for what cannot run.
    """
    memory_kept = keep_memory()
    questions = ask(pair, prompts, max_new_tokens)
    samples: list[Sample] = []
    times: list[ForwardTime] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="treegraft-bench-")))
        rows = build_rows(pair, policies, max_new_tokens, folder)
        machine = describe_machine(pair.target.device, memory_kept)
        stack.enter_context(pair.lock)
        stack.enter_context(bare_settings(pair))
        interrupted = measure_all(pair, rows, questions, repeats, samples, times, listener or Listener())
        samples = complete(samples, len(rows))
        margin = target_margin(pair.target.model, [question.tokens for question in questions])
        found = differences(samples, margin, NEAR_TIE[str(pair.target.dtype).removeprefix("torch.")])
    setup = describe_setup(pair, questions, max_new_tokens, repeats)
    return Bench(setup, machine, samples, found, times, interrupted)


def ask(pair: Pair, prompts: Sequence[Prompt], max_new_tokens: int) -> list[Question]:
    """The prompts as token ids. Errors: `BenchError` for one that leaves no room for an answer."""
    questions = []
    for number, prompt in enumerate(prompts):
        messages = prompt.conversation()
        tokens, _ = encode_prompt(pair.target.tokenizer, messages)
        if len(tokens) + max_new_tokens > pair.target.context_limit:
            raise BenchError(f"prompt {prompt.id} has {len(tokens)} tokens, and {max_new_tokens} new ones do not fit "
                             f"into the context of {pair.target.name}, {pair.target.context_limit} tokens. Leave the "
                             "prompt out, or lower --max-new-tokens.")
        questions.append(Question(number, tuple(messages), tokens))
    return questions


def measure_all(pair: Pair, rows: Sequence[Row], questions: Sequence[Question], repeats: int, samples: list[Sample],
                times: list[ForwardTime], listener: Listener) -> bool:
    """Add what is measured to `samples` and `times`; whether Ctrl-C ended it."""
    try:
        for sample in measure(rows, questions, repeats, listener):
            samples.append(sample)
        listener.decoding("single forwards")
        text = [token for question in questions for token in question.tokens]
        for time in measure_forwards(pair, rows, text, repeats):
            times.append(time)
    except KeyboardInterrupt:
        return True
    return False


def measure(rows: Sequence[Row], questions: Sequence[Question], repeats: int, listener: Listener) -> Iterator[Sample]:
    """Decode with every row once a prompt and repeat, after a warm-up on the longest prompt that is dropped."""
    listener.begin(len(rows) * (1 + repeats * len(questions)))
    longest = max(questions, key=lambda question: len(question.tokens))
    for row in rows:
        listener.decoding(f"{row.name}, warming up")
        row.measure(longest, 0)
    for repeat, number, row in schedule(rows, len(questions), repeats):
        listener.decoding(f"{row.name}, prompt {number + 1}, repeat {repeat + 1}")
        gc.collect()
        yield row.measure(questions[number], repeat)


def schedule(rows: Sequence[Row], prompts: int, repeats: int) -> Iterator[tuple[int, int, Row]]:
    """(repeat, prompt number, row): for each prompt all rows one after another, another one first each time."""
    for repeat in range(repeats):
        for prompt in range(prompts):
            first = (repeat + prompt) % len(rows)
            yield from ((repeat, prompt, row) for row in (*rows[first:], *rows[:first]))


def describe_setup(pair: Pair, questions: Sequence[Question], max_new_tokens: int, repeats: int) -> Setup:
    target = pair.target
    return Setup(
        target=target.name, parameters=target.parameters, dtype=str(target.dtype).removeprefix("torch."),
        device=str(target.device), date=f"{datetime.now(UTC):%Y-%m-%d}", prompts=len(questions),
        prompt_tokens=sum(len(question.tokens) for question in questions), max_new_tokens=max_new_tokens,
        repeats=repeats)
