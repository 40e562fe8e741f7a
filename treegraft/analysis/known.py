"""A finished run as a known text, along which drafters can be led again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treegraft.analysis.recorded import NotRecorded
from treegraft.drafters.base import Drafter, Prefilled, States
from treegraft.policies.base import MAX_NODES
from treegraft.trace.runs import Run
from treegraft.tree import NEG_INF


def begin(drafters: Sequence[Drafter], run: Run, states: States) -> None:
    """Let the drafters begin with the prompt of `run`, as its prefill left it; `states` are the target's there."""
    prompt, prefill = run.header.prompt.tokens, run.prefill
    shape = (-1, prefill.k) if prefill.k else (0, 0)
    prefilled = Prefilled(prompt=prompt, root=prefill.root, tokens=np.array(prefill.tokens, np.int64).reshape(shape),
                          logprobs=np.array(prefill.logprobs, np.int64).reshape(shape), states=states)
    for drafter in drafters:
        drafter.begin(prefilled, run.header.decoding.max_context, MAX_NODES)


def output_best(run: Run) -> np.ndarray:
    """The target's best next tokens after every output token but the last, best first, as the rounds recorded them:
    [tokens, k], -1 beyond the last."""
    rows = [walked.tokens for round in run.rounds for walked in round.event("verify").walk]
    found = np.full((len(run.output) - 1, max(map(len, rows), default=0)), -1)
    for place, row in enumerate(rows[: len(found)]):
        found[place, : len(row)] = row
    return found


def output_rivals(run: Run, drafters: Sequence[Drafter]) -> np.ndarray:
    """As many of the target's best tokens as these drafters ask for, best first, where it chose each root that a round
    can start from, the first one left out: [tokens, k].

    Errors: `NotRecorded` where neither the rounds nor probes of these drafters hold so many.
    """
    asking = max(drafters, key=lambda drafter: drafter.rivals_k, default=None)
    k = min(asking.rivals_k, run.prefill.k) if asking else 0
    rows = output_best(run)[:-1]
    recorded = rows.shape[1]
    if recorded < k:
        probes = {probe.context: probe.best[:k] for probe in run.probes if probe.drafter == asking.id and probe.k >= k}
        first = len(run.header.prompt.tokens) + 2
        found = [probes.get(context, [-1] * k) for context in range(first, first + len(rows))]
        rows = np.array(found, np.int64).reshape(-1, k)
    if (rows[:, :k] < 0).any():
        raise NotRecorded(f"{asking.label} asks for the target's {k} best tokens, and the rounds hold {recorded}: "
                          "record with --level dense, or let it ask for fewer")
    return rows[:, :k]


def output_logprobs(run: Run) -> np.ndarray:
    """The target's log-prob of every output token but the first, in 1e-5 nats, as the rounds recorded them."""
    found: list[int] = []
    for round in run.rounds:
        verify, accept = round.event("verify"), round.event("accept")
        logprob = dict(zip(verify.order, verify.logprob, strict=True))
        found += [NEG_INF if logprob[node] is None else logprob[node] for node in accept.path]
        last = verify.walk[-1] if verify.walk else None
        known = dict(zip(last.tokens, last.logprobs, strict=True)) if last else {}
        found.append(known.get(accept.bonus, 0))
        del found[len(found) - accept.discarded:]
    return np.array(found, np.int64)
