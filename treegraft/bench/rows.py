"""The rows of a benchmark: the ways to decode that are compared.

Every row takes a prompt's token ids and ends with the list of new token ids, and is timed from the one to the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from treegraft.policies import POLICIES, Policy
from treegraft.run import (
    RunError,
    choose_drafters,
    constants_for,
    context_size,
    find_scheduler,
    forwards,
    measure_costs,
    record,
)
from treegraft.settings import SettingError
from treegraft.stop import Stop

DEFAULT_POLICIES = ("plain", "chain", "lookup", "eagle2", "eagle2:budget=15,top_k=4,depth=4", "treegraft@lookup+strong",
                    "treegraft@lookup+eagle3")
"""What is measured unless the user names policies; those that the pair has no drafter for are left out."""

PROMPT_LOOKUP_TOKENS = 10
"""Tokens that transformers' prompt lookup copies at most."""


class BenchError(ValueError):
    """A benchmark that cannot be run as asked; the text says what to do instead."""


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

    `policies` are like `eagle2:budget=15,strong.draft_vocab=4096` or `treegraft@lookup+strong:schedule=always`; none
    means `DEFAULT_POLICIES`.
    Errors: `BenchError`, `SettingError` and `RunError` for policies that cannot run on the pair.
    """
    options = {GENERATE: {}, "generate: prompt lookup": {"prompt_lookup_num_tokens": PROMPT_LOOKUP_TOKENS}}
    assistant = next((drafter for drafter in pair.drafters.values() if isinstance(drafter, LM)), None)
    if assistant:
        options[f"generate: assisted by {assistant.label}"] = {"assistant_model": assistant.model}
    rows: list[Row] = [GenerateRow(name, pair, max_new_tokens, values) for name, values in options.items()]
    for text in policies or fitting(pair):
        if any(row.name == text for row in rows):
            raise BenchError(f"--policy {text} was given twice; name each policy once.")
        policy, drafters, its_pair = parse_policy(text, pair)
        check_policy(its_pair, policy, drafters)
        rows += [PolicyRow(text, its_pair, policy, drafters, max_new_tokens),
                 RecordedRow(text, its_pair, policy, drafters, max_new_tokens, folder)]
    return rows


def fitting(pair: Pair) -> Iterator[str]:
    """The default policies that the pair has drafters for."""
    for text in DEFAULT_POLICIES:
        policy, drafters, _ = parse_policy(text, pair)
        try:
            check_policy(pair, policy, drafters)
        except RunError:
            continue
        yield text


def check_policy(pair: Pair, policy: Policy, drafters: Sequence[str] | None) -> None:
    """Errors: `RunError` for a policy that the pair has no drafters or no scheduler for."""
    chosen = choose_drafters(pair, policy, drafters)
    if policy.needs_scheduler:
        find_scheduler(None, pair.target.name, chosen)


def parse_policy(text: str, pair: Pair) -> tuple[Policy, list[str] | None, Pair]:
    """A policy, its drafters (None: the first that fit) and the pair, all with the settings in
    `NAME@DRAFTER+DRAFTER:SETTING=VALUE,DRAFTER.SETTING=VALUE,...`.

    Errors: `BenchError`, `SettingError`.
    """
    head, _, rest = text.partition(":")
    name, _, drafters = head.partition("@")
    if name not in POLICIES:
        raise BenchError(f"--policy was {text!r}; there is no policy {name!r}. Known: {', '.join(POLICIES)}.")
    own: dict[str, str] = {}
    others: dict[str, dict[str, str]] = {}
    for part in rest.split(",") if rest else []:
        setting, equals, value = part.partition("=")
        if not (setting and equals):
            raise BenchError(f"--policy was {text!r}; write it as NAME:SETTING=VALUE,..., like eagle2:budget=15.")
        drafter, dot, inner = setting.rpartition(".")
        (others.setdefault(drafter, {}) if dot else own)[inner] = value
    return POLICIES[name].from_text(own), drafters.split("+") if drafters else None, with_settings(pair, others)


def with_settings(pair: Pair, settings: dict[str, dict[str, str]]) -> Pair:
    """The pair with other settings of its drafters; models are shared, caches are not.

    Errors: `SettingError`.
    """
    drafters = dict(pair.drafters)
    for name, values in settings.items():
        if name not in drafters:
            raise SettingError(f"there is no drafter {name!r}; the pair has: {', '.join(drafters) or 'none'}.")
        made = type(drafters[name]).from_text(values).settings
        drafters[name] = replace(drafters[name], **{setting: made[setting] for setting in values})
    return replace(pair, drafters=drafters)
