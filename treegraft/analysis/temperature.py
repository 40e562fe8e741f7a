"""How many drafted tokens a recorded run would have accepted at another temperature, as bounds.

The recorded trees stand, at their places in the recorded text; the acceptance rule is that for point masses (drafts
that were not drawn at random), which accepts a child with the target's probability of its token. Of a distribution the
trace holds the best tokens and the drafted ones; the rest of its mass may be one token, or spread evenly over all
others: between the two lies the probability at another temperature.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treegraft.trace.records import NATS, Verify
from treegraft.trace.runs import Run, TracedRound


@dataclass(frozen=True)
class Expected:
    """Bounds of the mean expected accepted length, the bonus not counted, at some temperatures."""

    temperatures: np.ndarray
    low: np.ndarray
    high: np.ndarray


def expected_accepted(run: Run, temperatures: np.ndarray) -> Expected | None:
    """The expected accepted length of `run` at `temperatures` (above 0); None for a run without rounds or one whose
    tokens were drawn, as its probabilities are those of its own temperature."""
    if len(run.rounds) == 0 or run.header.decoding.temperature > 0:
        return None
    vocabulary = max(run.header.target.vocab_size, 2)
    totals = sum(round_bounds(round, temperatures, vocabulary) for round in run.rounds)
    low, high = totals / len(run.rounds)
    return Expected(temperatures, low, high)


def round_bounds(round: TracedRound, temperatures: np.ndarray, vocabulary: int) -> np.ndarray:
    """Lower and upper bound of the expected accepted length of one round, [2, temperatures]."""
    verify, nodes = round.event("verify"), round.record.nodes
    logprob = {node: -np.inf if value is None else value / NATS
               for node, value in zip(verify.order, verify.logprob, strict=True)}
    reach = {0: np.ones((2, len(temperatures)))}
    for node, known in known_tokens(verify, nodes.parent, nodes.token, logprob).items():
        chances = bounds(known, temperatures, vocabulary)
        for child in (child for child in verify.order[1:] if nodes.parent[child] == node):
            reach[child] = reach[node] * chances[nodes.token[child]]
    return sum((reach[node] for node in verify.order[1:]), np.zeros((2, len(temperatures))))


def known_tokens(verify: Verify, parent: list[int], token: list[int],
                 logprob: dict[int, float]) -> dict[int, dict[int, float]]:
    """For each node with verified children, in order: the tokens after it whose log-probability is recorded."""
    found: dict[int, dict[int, float]] = {}
    walked = {one.node: one for one in verify.walk}
    for child in verify.order[1:]:
        node = parent[child]
        if node not in found:
            one = walked.get(node)
            found[node] = dict(zip(one.tokens, (value / NATS for value in one.logprobs), strict=True)) if one else {}
        found[node].setdefault(token[child], logprob[child])
    return found


def bounds(known: dict[int, float], temperatures: np.ndarray, vocabulary: int) -> dict[int, np.ndarray]:
    """Lower and upper bound of each known token's probability, [2, temperatures] each."""
    inverse = 1 / temperatures
    powers = {token: np.exp(min(value, 0.0) * inverse) for token, value in known.items()}
    rest = max(0.0, 1 - sum(np.exp(min(value, 0.0)) for value in known.values()))
    others = max(1, vocabulary - len(known))
    as_one, spread = rest**inverse, others * (rest / others) ** inverse
    total = sum(powers.values())
    least, most = total + np.minimum(as_one, spread), total + np.maximum(as_one, spread)
    return {token: np.array([power / most, power / np.maximum(least, 1e-300)]) for token, power in powers.items()}
