"""The rows of a benchmark: the ways to decode that are compared.

Every row takes a prompt's token ids and ends with the list of new token ids, and is timed from the one to the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from transformers import GenerationConfig
from transformers.utils import logging

from treegraft.analysis.metrics import summary
from treegraft.bench.samples import GENERATE, Sample
from treegraft.drafters.lm import LM
from treegraft.engine import decode, prefill
from treegraft.models import Pair
from treegraft.models.target import Target
from treegraft.policies import Policy
from treegraft.policy_text import choose_policies
from treegraft.run import choose_drafters, constants_for, context_size, forwards, measure_costs, record
from treegraft.stop import Stop

PROMPT_LOOKUP_TOKENS = 10
"""Tokens that transformers' prompt lookup copies at most."""


@dataclass(frozen=True)
class Question:
    """A prompt to decode: its number, the chat messages, and their token ids in the chat template."""

    number: int
    messages: tuple[dict[str, str], ...]
    tokens: list[int]


class Row(Protocol):
    """One way to decode."""

    name: str
    recorded: bool

    def measure(self, question: Question, repeat: int) -> Sample:
        """Decode once, timed."""


# --- transformers' own decoding -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GenerateRow:
    """`generate` of transformers on the target, greedy, with further `options`."""

    name: str
    pair: Pair
    max_new_tokens: int
    options: dict[str, Any]
    recorded: bool = False

    def measure(self, question: Question, repeat: int) -> Sample:
        model = self.pair.target.model
        with counted(model) as calls:
            start = time.perf_counter()
            ids = torch.tensor([question.tokens], device=self.pair.target.device)
            output = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                                    max_new_tokens=self.max_new_tokens, **self.options)
            new = output[0, len(question.tokens):].tolist()
            seconds = time.perf_counter() - start
        return Sample(self.name, repeat, question.number, tuple(new), micro(seconds), rounds=len(calls),
                      accepted=len(new) - len(calls))


@contextmanager
def counted(model: torch.nn.Module) -> Iterator[list[int]]:
    """A list that gets one entry for each forward of `model`."""
    calls: list[int] = []
    hook = model.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        yield calls
    finally:
        hook.remove()


@contextmanager
def bare_settings(pair: Pair) -> Iterator[None]:
    """Let `generate` decode as our loop does: greedy, without the penalties that a model may bring along.

    Its warnings are off: they are about how it calls itself for assisted generation.
    """
    model, eos = pair.target.model, sorted(pair.target.eos_ids)
    before, verbosity = model.generation_config, logging.get_verbosity()
    model.generation_config = GenerationConfig(eos_token_id=eos or None, pad_token_id=eos[0] if eos else 0)
    logging.set_verbosity_error()
    try:
        yield
    finally:
        model.generation_config = before
        logging.set_verbosity(verbosity)


# --- our loop -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PolicyRow:
    """Our decode loop with one policy, nothing recorded."""

    name: str
    pair: Pair
    policy: Policy
    drafters: Sequence[str] | None
    max_new_tokens: int
    recorded: bool = False

    def measure(self, question: Question, repeat: int) -> Sample:
        drafters = choose_drafters(self.pair, self.policy, self.drafters)
        context = self._context(question)
        target = Target(self.pair.target.cached(context))
        costs = measure_costs(target, drafters) if self.policy.needs_clock else ()
        constants = constants_for(self.pair, len(question.tokens), self.policy, drafters, costs)
        phases: dict[str, float] = {}
        rounds = accepted = 0
        start = time.perf_counter()
        stop = Stop(self.pair.target.eos_ids, (), self.max_new_tokens, context - len(question.tokens), lambda _: b"")
        prefilled = prefill(target, drafters, question.tokens, context, self.policy.capacity)
        output, prefill_seconds = [prefilled.root], time.perf_counter() - start
        forwards(target, drafters)
        for step in decode(target, self.policy, drafters, prefilled, stop, context, constants):
            output += step.tokens[: step.taken]
            rounds, accepted = rounds + 1, accepted + min(step.taken, len(step.path))
            for phase, seconds in step.seconds.items():
                phases[phase] = phases.get(phase, 0) + seconds
        seconds = time.perf_counter() - start
        return Sample(
            self.name, repeat, question.number, tuple(output), micro(seconds), rounds, accepted,
            prefill=micro(prefill_seconds), phases={phase: micro(spent) for phase, spent in phases.items()},
            forwards=sum(forward.microseconds for forward in forwards(target, drafters)))

    def _context(self, question: Question) -> int:
        return context_size(self.pair, len(question.tokens), self.max_new_tokens, self.policy.capacity, None)


@dataclass(frozen=True)
class RecordedRow:
    """The same policy through `record`, which writes a trace file into `folder`."""

    name: str
    pair: Pair
    policy: Policy
    drafters: Sequence[str] | None
    max_new_tokens: int
    folder: Path
    recorded: bool = True

    def measure(self, question: Question, repeat: int) -> Sample:
        path = self.folder / "run.jsonl.zst"
        start = time.perf_counter()
        run = record(self.pair, question.messages, self.policy, drafters=self.drafters, out=path,
                     max_new_tokens=self.max_new_tokens, costs=False).run
        seconds = time.perf_counter() - start
        path.unlink()
        if run.end.reason == "interrupted":
            raise KeyboardInterrupt
        counts = summary(run)
        return Sample(
            self.name, repeat, question.number, tuple(run.output), micro(seconds), counts.rounds, counts.accepted,
            recorded=True, recording=run.end.recording, prefill=run.prefill.microseconds,
            phases={phase: spent for phase, spent in counts.phases.items() if phase != "prefill"},
            forwards=sum(model.microseconds for model in counts.models))


def micro(seconds: float) -> int:
    return round(seconds * 1e6)


# --- which rows there are -------------------------------------------------------------------------------------------


def build_rows(pair: Pair, policies: Sequence[str], max_new_tokens: int, folder: Path) -> list[Row]:
    """Plain `generate` and its two speculative modes, then every policy without and with recording into `folder`.

    `policies` are as `choose_policies` takes them. Errors: `SettingError` and `RunError`.
    """
    options = {GENERATE: {}, "generate: prompt lookup": {"prompt_lookup_num_tokens": PROMPT_LOOKUP_TOKENS}}
    assistant = next((drafter for drafter in pair.drafters.values() if isinstance(drafter, LM)), None)
    if assistant:
        options[f"generate: assisted by {assistant.label}"] = {"assistant_model": assistant.model}
    rows: list[Row] = [GenerateRow(name, pair, max_new_tokens, values) for name, values in options.items()]
    for one in choose_policies(policies, pair):
        rows += [PolicyRow(one.text, one.pair, one.policy, one.drafters, max_new_tokens),
                 RecordedRow(one.text, one.pair, one.policy, one.drafters, max_new_tokens, folder)]
    return rows
