"""A finished run as a known text, along which drafters can be led again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
