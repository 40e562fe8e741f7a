"""The decode loop of tree-based speculative decoding. Read this file first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from treegraft.drafters.base import Committed, Drafter, Prefilled
from treegraft.models.answers import Answers
from treegraft.models.sampler import Sampler
from treegraft.models.target import Target
from treegraft.policies.base import NO_CONSTANTS, Constants, Policy, Round
from treegraft.stop import Stop
from treegraft.trace.records import Learn
from treegraft.tree import DraftTree
from treegraft.verify import Outcome, accept_greedy, accept_sampled


@dataclass
class Step:
    """One finished round: what was drafted, what the target answered, what was accepted.

    `path` are the accepted nodes, `tokens` their tokens and the bonus; the first `taken` of them belong to the text.
    `rule` is the acceptance rule, and `outcome` how it decided where the tokens were drawn (None for greedy decoding).
    `learned` is what drafters learned from it, `seconds` the wall time of each phase.
    """

    round: Round
    answers: Answers
    path: np.ndarray
    tokens: list[int]
    taken: int
    rule: str = "greedy"
    outcome: Outcome | None = None
    learned: list[Learn] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def prefill(target: Target, drafters: Sequence[Drafter], prompt: list[int], max_context: int,
            capacity: int, sampler: Sampler | None = None) -> Prefilled:
    """Read the prompt with the target and the drafters; chooses the first root."""
    layers = sorted({layer for drafter in drafters for layer in drafter.aux_layers})
    prefilled = target.prefill(prompt, max((drafter.prefill_k for drafter in drafters), default=0), layers, sampler)
    for drafter in drafters:
        drafter.begin(prefilled, max_context, capacity)
    prefilled.states = {}
    return prefilled


def decode(target: Target, policy: Policy, drafters: Sequence[Drafter], prefilled: Prefilled, stop: Stop,
           max_context: int, constants: Constants = NO_CONSTANTS, sampler: Sampler | None = None) -> Iterator[Step]:
    """Draft, verify, accept, commit, until `stop` says that the text has ended; yields every round.

    Without a `sampler` decoding is greedy, and the output is what the target would write alone, whatever the drafters
    propose. With one, the output has the distribution of what the target would write alone, if the rule is lossless.
    """
    root, context = prefilled.root, len(prefilled.prompt) + 1
    reads_logprobs = any(drafter.reads_logprobs for drafter in drafters)
    verify_k = max((drafter.verify_k for drafter in drafters), default=0)
    rivals_k = max((drafter.rivals_k for drafter in drafters), default=0)
    stop.take([root])
    while not stop.reason:
        clock = Phases()
        tree = DraftTree(root, context, policy.capacity)
        round = Round(tree, drafters, limit=max_context - context, constants=constants, sampler=sampler)
        policy.draft(round)
        clock.lap("draft")
        answers = target.verify(tree, round.kept, sampler)
        clock.lap("verify")
        if sampler is None:
            outcome, (path, bonus) = None, accept_greedy(tree, round.kept, answers.argmax)
        else:
            outcome = accept_sampled(tree, round.kept, answers.distribution, round.draws, sampler.rule, sampler.uniform)
            path, bonus = outcome.path, outcome.bonus
        clock.lap("accept")
        tokens = [*tree.token[path].tolist(), bonus]
        committed = Committed(
            path, tokens, states=target.commit(tree, round.kept, path),
            logprobs=answers.logprobs(path, tokens) if reads_logprobs else None,
            verified=round.kept, best=answers.best(verify_k) if verify_k else np.zeros((0, 0), np.int64),
            rivals=answers.rivals(path, rivals_k) if rivals_k else np.zeros(0, np.int64))
        learned = [drafter.commit(tree, committed) for drafter in drafters]
        clock.lap("commit")
        yield Step(round, answers, path, tokens, stop.take(tokens), sampler.rule if sampler else "greedy", outcome,
                   [one for one in learned if one], clock.seconds)
        root, context = bonus, context + len(tokens)


class Phases:
    """Wall time by phase, each lap from the end of the one before."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = now - self._last
        self._last = now
