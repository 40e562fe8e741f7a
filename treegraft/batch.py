"""Record many prompts, turn by turn, into one trace."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from treegraft.models import Pair
from treegraft.models.errors import PromptError
from treegraft.policies.base import Policy
from treegraft.prompts import Prompt
from treegraft.run import Recording, RunError, record
from treegraft.sampling import seed_of
from treegraft.trace.reader import Run

REFUSALS = (RunError, PromptError)
"""Errors that say why one prompt cannot run."""


def record_prompts(pair: Pair, prompts: Sequence[Prompt], policy: Policy, *, raw: bool = False,
                   seed: int | None = None, **options) -> Iterator[tuple[Prompt, Recording | RunError | PromptError]]:
    """Record every turn of every prompt, each answer fed back before the next turn, and yield what came of it.

    A turn that cannot run yields its error; the prompt's later turns are then left out. An interrupted run is the
    last one. The first run has the `seed`, the next one the seed + 1, and so on. `options` go to `record`.
    """
    number = itertools.count()
    for index, prompt in enumerate(prompts):
        answers: list[str] = []
        for turn, text in enumerate(prompt.turns):
            asked = prompt.conversation(answers) if answers or prompt.history else text
            try:
                recording = record(pair, asked, policy, raw=raw, group=prompt.group, index=index, turn=turn,
                                   seed=seed_of(seed, next(number)), **options)
            except REFUSALS as error:
                yield prompt, error
                break
            yield prompt, recording
            if recording.run.end.reason == "interrupted":
                return
            answers.append(answer(recording.run))


def answer(run: Run) -> str:
    """The output text without the token that ends it, as a chat template wants it back."""
    pieces = [run.pieces[token] for token in run.output if token not in run.header.decoding.eos]
    return b"".join(pieces).decode("utf-8", "replace")
