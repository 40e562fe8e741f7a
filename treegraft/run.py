"""Record a decode: choose the drafters for a policy, run the engine, write down every round."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import torch

from treegraft.analysis.costs import microseconds
from treegraft.analysis.text import is_unicode
from treegraft.calibration import CalibrationError, calibrated
from treegraft.drafters.base import Drafter
from treegraft.engine import decode, prefill
from treegraft.models import Pair
from treegraft.models.cache import COST_CONTEXT
from treegraft.models.sampler import Sampler
from treegraft.models.target import Target
from treegraft.models.tokenizer import encode_prompt, piece_bytes
from treegraft.policies.base import Constants, Policy
from treegraft.probes import take_probes
from treegraft.recorder import Recorder
from treegraft.sampling import FITTING, Sampling, rule_for
from treegraft.scheduler.files import SchedulerError, bundled, describe, load
from treegraft.scheduler.network import Scheduler
from treegraft.settings import SettingError
from treegraft.stop import Stop
from treegraft.trace import records
from treegraft.trace.reader import Run, TracedRound
from treegraft.trace.records import TARGET, DrafterInfo, Header
from treegraft.trace.writer import Writer

LEVELS = ("run", "dense", "exhaustive")

DEFAULT_CONTEXT = 2048
"""Tokens that the caches hold unless the prompt and the answer need more."""


class RunError(ValueError):
    """A run that cannot start: the text says what was given, what is allowed and what to do."""


@dataclass
class Recording:
    """A finished run: `run` holds its records, `text` what was written, `path` its trace file if one was asked for."""

    run: Run
    path: Path | None = None

    @property
    def text(self) -> str:
        return self.run.text

    @property
    def trace(self) -> Run:
        return self.run


def record(pair: Pair, prompt: str | Sequence[dict[str, str]] | records.Prompt, policy: Policy, *,
           drafters: Sequence[str] | None = None, out: str | Path | None = None, writer: Writer | None = None,
           max_new_tokens: int = 256, max_context: int | None = None, stop: str | Sequence[str] = (), raw: bool = False,
           temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, seed: int | None = None,
           rule: str = FITTING, group: str = "", index: int = 0, turn: int = 0,
           costs: bool | Sequence[records.CostCurve] = True,
           scheduler: str | Path | Scheduler | None = None, clock: records.Clock | None = None, level: str = "run",
           baseline: records.Baseline | None = None,
           on_round: Callable[[TracedRound], None] | None = None,
           on_probe: Callable[[int, int], None] | None = None) -> Recording:
    """Decode `prompt` (text, chat messages, or a trace's prompt: its very tokens) with `policy` and record it.

    `drafters` names the pair's drafters for the policy's roles, in order; by default the first ones that fit. The trace
    goes to `out` (a path), or to `writer` where several runs share a file. `raw` leaves the chat template out.
    `stop` is one text or several that end the answer. At a `temperature` above 0 tokens are drawn from the target's
    distribution after temperature, `top_k`, `top_p` and `min_p`, by the acceptance `rule` (see `Sampling`); the same
    `seed` on the same machine draws the same text, and one is chosen where none is given. `costs` measures how long
    forwards over 1 to 64 tokens take, once a pair, for the header, or gives the curves. `scheduler` (or the folder of
    one) decides for a policy that asks for it; by default the one that comes with the pair. `clock` decides in place of
    the measured costs, so that a run can be repeated. `level` also takes probes after the run, for exact what-ifs: what
    the drafters would have said at every output position (`dense`), under every choice of calls (`exhaustive`).
    `baseline` is what plain decoding of the same prompt took, for the trace's end.
    `on_round` is called after every round, `on_probe` after every probed position with its number and how many there
    are; either may raise `KeyboardInterrupt` to stop, and what was recorded until then is kept.

    Errors: `RunError` for arguments that do not fit, `PromptError` for a prompt that the model cannot be asked,
    `ModelError` for a model that cannot follow a tree; `TraceError` if the trace cannot be written.
    """
    stop = check_request(policy, max_new_tokens, stop)
    chosen = choose_drafters(pair, policy, drafters)
    try:
        policy = calibrated(policy, pair.target.name, [drafter.label for drafter in chosen])
        sampling = Sampling(temperature, top_k, top_p, min_p, rule, seed)
        rule = rule_for(policy, sampling)
    except (CalibrationError, SettingError) as error:
        raise RunError(str(error)) from None
    check_level(level, sampling)
    asked = prompt_of(pair, prompt, raw)
    tokens = asked.tokens
    max_context = context_size(pair, len(tokens), max_new_tokens, policy.capacity, max_context)
    header = describe_run(pair, policy, chosen, asked)
    header.decoding = describe_decoding(sampling, rule, max_new_tokens, max_context, stop, sorted(pair.target.eos_ids))
    header.group, header.index, header.turn, header.level = group, index, turn, level
    with ExitStack() as stack:
        stack.enter_context(pair.lock)
        target = Target(pair.target.cached(max_context))
        header.costs = [] if isinstance(costs, bool) else list(costs)
        timed = policy.needs_clock or (level == "exhaustive" and policy.decides)
        if costs is True or ((timed or policy.needs_costs) and not header.costs):
            header.costs = measure_costs(target, chosen)
        constants = constants_for(pair, len(tokens), policy, chosen, header.costs, scheduler, timed=timed)
        constants = replace(constants, clock=clock or constants.clock)
        header.clock = constants.clock
        header.scheduler = describe(constants.scheduler) if constants.scheduler else None
        if out is not None:
            writer = stack.enter_context(Writer(out))
        recorder = Recorder(header, lambda ids: piece_bytes(pair.target.tokenizer, ids), writer, baseline)
        sampler = Sampler(sampling, rule, pair.target.usable_vocab) if sampling.temperature else None
        run_to_end(recorder, target, policy, chosen, constants, sampler, on_round, on_probe)
    return Recording(recorder.run, Path(out) if out is not None else None)


def describe_decoding(sampling: Sampling, rule: str, max_new_tokens: int, max_context: int, stop: list[str],
                      eos: list[int]) -> records.Decoding:
    """How tokens are chosen and what ends the text, for the header."""
    return records.Decoding(
        temperature=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p, min_p=sampling.min_p, rule=rule,
        seed=sampling.seed, max_new_tokens=max_new_tokens, max_context=max_context, stop=stop, eos=eos)


def check_request(policy: Policy, max_new_tokens: int, stop: str | Sequence[str]) -> list[str]:
    """The texts that end the answer, once it is sure that the arguments are of the right kind. Errors: `RunError`."""
    if not isinstance(policy, Policy):
        raise RunError(f"policy was {policy!r}; give a policy with its settings, such as treegraft.Eagle2(budget=32).")
    if not isinstance(max_new_tokens, int) or max_new_tokens < 1:
        raise RunError(f"max_new_tokens was {max_new_tokens!r}; allowed: whole numbers from 1.")
    texts = [stop] if isinstance(stop, str) else list(stop)
    for text in texts:
        if not (isinstance(text, str) and text and is_unicode(text)):
            raise RunError(f"stop had {text!r}; give texts of one or more characters.")
    return texts


def prompt_of(pair: Pair, prompt: str | Sequence[dict[str, str]] | records.Prompt, raw: bool) -> records.Prompt:
    """The prompt as its trace keeps it. Errors: `PromptError`; `RunError` for tokens that the target does not have."""
    if not isinstance(prompt, records.Prompt):
        tokens, rendered = encode_prompt(pair.target.tokenizer, prompt, raw=raw)
        return records.Prompt(tokens=tokens, text=rendered, messages=chat_of(prompt, rendered))
    wrong = [token for token in prompt.tokens if not 0 <= token < pair.target.usable_vocab]
    if wrong or not prompt.tokens:
        raise RunError(f"the prompt has {f'token {wrong[0]}' if wrong else 'no tokens'}; allowed: one or more tokens "
                       f"from 0 to {pair.target.usable_vocab - 1}, those of {pair.target.name}.")
    return prompt


def check_level(level: str, sampling: Sampling) -> None:
    """Errors: `RunError` for a recording level that there is not, or that sampled text cannot have."""
    if level not in LEVELS:
        raise RunError(f"level was {level!r}; allowed: {', '.join(LEVELS)}.")
    if level != "run" and sampling.temperature > 0:
        raise RunError(f"level was {level!r}: it keeps what replays need to be exact, which they are for greedy text "
                       "alone. Record at level run, or at temperature 0.")


def chat_of(prompt: str | Sequence[dict[str, str]], rendered: str) -> list[dict[str, str]] | None:
    """The messages of a chat; text that was set in the chat template is one user message. None for raw text."""
    if not isinstance(prompt, str):
        return list(prompt)
    return None if rendered == prompt else [{"role": "user", "content": prompt}]


def run_to_end(recorder: Recorder, target: Target, policy: Policy, drafters: Sequence[Drafter],
               constants: Constants, sampler: Sampler | None = None,
               on_round: Callable[[TracedRound], None] | None = None,
               on_probe: Callable[[int, int], None] | None = None) -> None:
    """Decode until the text ends, recording; an interrupt or an error still ends the trace in good order."""
    decoding, prompt = recorder.header.decoding, recorder.header.prompt.tokens
    stop = Stop(decoding.eos, decoding.stop, decoding.max_new_tokens, decoding.max_context - len(prompt),
                recorder.piece)
    start, reason, probed = time.perf_counter(), "error", 0
    try:
        prefilled = prefill(target, drafters, prompt, decoding.max_context, policy.capacity, sampler)
        recorder.prefill(prefilled, time.perf_counter() - start, forwards(target, drafters))
        for step in decode(target, policy, drafters, prefilled, stop, decoding.max_context, constants, sampler):
            recorder.round(step, forwards(target, drafters), cached_tokens(target, drafters))
            if on_round:
                on_round(recorder.run.rounds[-1])
        reason = stop.reason
        if recorder.header.level != "run":
            probes = take_probes(target, policy, drafters, constants, recorder.run)
            for (probed, of), at_place in groupby(probes, key=lambda one: one[:2]):
                for *_, probe in at_place:
                    recorder.probe(probe)
                if on_probe:
                    on_probe(probed, of)
    except KeyboardInterrupt:
        reason = stop.reason or "interrupted"
        recorder.stop_probing(probed)
    finally:
        recorder.end(reason, stop.new_tokens)


def measure_costs(target: Target, drafters: Sequence[Drafter]) -> list[records.CostCurve]:
    """How long forwards over 1 to 64 tokens take, for the target and each drafter that runs a model."""
    points = {TARGET: target.cached.cost_points()} | {drafter.id: drafter.cost_points() for drafter in drafters}
    return [records.CostCurve(model=model, context=COST_CONTEXT, points=curve)
            for model, curve in points.items() if curve]


def constants_for(pair: Pair, prompt: int, policy: Policy, drafters: Sequence[Drafter],
                  costs: Sequence[records.CostCurve], scheduler: str | Path | Scheduler | None = None, *,
                  timed: bool = False) -> Constants:
    """What `policy` may know of a run over a prompt of `prompt` tokens; `timed`: the clock even if it does not ask.

    Errors: `RunError` where the policy needs a scheduler and there is none that can be used.
    """
    clock = clock_of(costs, policy, drafters) if policy.needs_clock or timed else None
    chosen = find_scheduler(scheduler, pair.target.name, drafters) if policy.needs_scheduler else None
    return Constants(prompt, clock, chosen, costs if policy.needs_costs else ())


def find_scheduler(given: str | Path | Scheduler | None, target: str, drafters: Sequence[Drafter]) -> Scheduler:
    """The given scheduler, or the one that comes with these models. Errors: `RunError`."""
    if isinstance(given, Scheduler):
        return given
    folder = given or bundled(target, *(drafter.label for drafter in drafters))
    if folder is None:
        names = " and ".join(drafter.label for drafter in drafters)
        raise RunError(f"there is no scheduler for {target} with {names}. Give one (--scheduler FOLDER), train one "
                       "with `treegraft values` and `treegraft distill-scheduler`, or take another schedule: always, "
                       "never, or layers such as 1,3.")
    try:
        return load(folder)
    except SchedulerError as error:
        raise RunError(str(error)) from None


def clock_of(costs: Sequence[records.CostCurve], policy: Policy, drafters: Sequence[Drafter]) -> records.Clock:
    """What a verification of a full tree costs, and a call that expands a whole frontier."""
    curves = {curve.model: curve for curve in costs}
    target = microseconds(curves[TARGET], policy.budget + 1)
    strong = max(1, microseconds(curves[drafters[-1].id], policy.top_k))
    return records.Clock(target=target, strong=strong, call_budget=policy.call_budget or target // strong)


def forwards(target: Target, drafters: Sequence[Drafter]) -> list[records.Forward]:
    """The model forwards since the last call, drafters first."""
    return [lap for model in (*drafters, target) for lap in model.read_forwards()]


def cached_tokens(target: Target, drafters: Sequence[Drafter]) -> dict[int, int]:
    """Tokens in each KV cache, by model."""
    kept = {drafter.id: drafter.cached for drafter in drafters if drafter.cached is not None}
    return {TARGET: target.cached.length, **kept}


def choose_drafters(pair: Pair, policy: Policy, names: Sequence[str] | None) -> list[Drafter]:
    """The drafters for the roles of `policy`, numbered in role order.

    Errors: `RunError` for an unknown drafter, the wrong number, or one that cannot fill its role.
    """
    if isinstance(names, str):
        raise RunError(f"drafters was {names!r}; give a list of names, such as [{names!r}].")
    if names is not None and len(names) != len(policy.roles):
        raise RunError(f"policy {policy.name} takes {len(policy.roles)} drafter(s) "
                       f"({', '.join(role.name for role in policy.roles) or 'none'}); {len(names)} given: "
                       f"{', '.join(names) or 'none'}.")
    chosen: list[Drafter] = []
    for place, role in enumerate(policy.roles):
        fitting = {name: drafter for name, drafter in pair.drafters.items()
                   if role.fits(drafter.name, drafter.scores_tokens) and drafter not in chosen}
        name = names[place] if names is not None else next(iter(fitting), None)
        if name not in fitting:
            known = ", ".join(pair.drafters) or "none"
            why = "cannot fill" if name in pair.drafters else "is not there for"
            why = "already has a role and cannot fill" if pair.drafters.get(name) in chosen else why
            who = "no drafter here can fill" if names is None else f"drafter {name!r} {why}"
            raise RunError(f"{who} the role {role.name!r} of policy {policy.name}, which {role.help}. Fitting: "
                           f"{', '.join(fitting) or 'none'}; the pair has: {known}. Give --drafter a name, a folder "
                           "or a hub id.")
        drafter = fitting[name]
        drafter.id = place
        chosen.append(drafter)
    return chosen


def context_size(pair: Pair, prompt: int, new: int, capacity: int, asked: int | None) -> int:
    """How many tokens the caches must hold. Errors: `RunError` where the prompt leaves no room for an answer."""
    limit = pair.target.context_limit
    if asked is not None and not (isinstance(asked, int) and 2 <= asked <= limit):
        raise RunError(f"max_context was {asked!r}; allowed: 2 to {limit}, the context of {pair.target.name}.")
    size = asked or min(limit, max(DEFAULT_CONTEXT, prompt + new + capacity))
    if prompt >= size:
        raise RunError(f"the prompt has {prompt} tokens and the context holds {size}: no room for an answer. "
                       "Shorten the prompt" + (" or raise max_context." if size < limit else "."))
    return size


def describe_run(pair: Pair, policy: Policy, drafters: Sequence[Drafter], prompt: records.Prompt) -> Header:
    """The header of a run's trace."""
    target = pair.target
    return Header(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        target=records.TargetInfo(
            name=target.name, revision=target.revision, dtype=str(target.dtype).removeprefix("torch."),
            device=str(target.device), vocab_size=target.vocab_size, context_limit=target.context_limit,
            parameters=target.parameters),
        drafters=[DrafterInfo(id=d.id, kind=d.name, name=d.label, parameters=d.parameters, state=d.state,
                              proposes=d.proposes, context_limit=d.context_limit, memory=d.memory,
                              settings=d.settings)
                  for d in drafters],
        policy=records.PolicyInfo(name=policy.name, settings=policy.settings, drafters=[d.id for d in drafters]),
        prompt=prompt, host=describe_host())


def describe_host() -> records.Host:
    """The machine and the versions that a run's times belong to."""
    cuda = torch.cuda.is_available()
    return records.Host(
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        accelerator=torch.cuda.get_device_name() if cuda else "", threads=torch.get_num_threads(),
        python=platform.python_version(), torch=str(torch.__version__), transformers=version("transformers"),
        treegraft=version("treegraft"))
