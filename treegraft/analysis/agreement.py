"""Whether two texts are the same, and how close a decision was where they are not."""

from __future__ import annotations

from collections.abc import Sequence

from treegraft.trace.records import NATS
from treegraft.trace.runs import Run

NEAR_TIE = {"float32": 1e-4, "float16": 0.06, "bfloat16": 0.5}
"""Nats between a model's best two tokens below which another order of additions may swap them. In the 16-bit types this
is a few rounding steps of a logit between 16 and 32."""


def first_difference(output: Sequence[int], reference: Sequence[int]) -> int | None:
    """The first place at which two outputs differ, None if they are equal. One that just ends earlier differs there."""
    for place, (token, expected) in enumerate(zip(output, reference, strict=False)):
        if token != expected:
            return place
    return None if len(output) == len(reference) else min(len(output), len(reference))


def margins(run: Run) -> list[float | None]:
    """How much the target preferred each token of the output to its next best, in nats; None where the trace does not
    say (the first token, if no drafter asked for the prompt's probabilities)."""
    prefill = run.prefill
    rows = [prefill.logprobs[-prefill.k:] if prefill else []]
    rows += [walked.logprobs for round in run.rounds for walked in round.event("verify").walk]
    return [(row[0] - row[1]) / NATS if len(row) > 1 else None for row in rows]
