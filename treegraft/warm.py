"""Warm-up of successor rows: a target answers prompts, and what it expected at every position is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from treegraft.batch import REFUSALS
from treegraft.drafters.successors import Rows, Successors
from treegraft.engine import decode, prefill
from treegraft.models import Pair
from treegraft.models.target import Target
from treegraft.models.tokenizer import encode_prompt
from treegraft.policies import Plain
from treegraft.prompts import Prompt
from treegraft.run import context_size
from treegraft.stop import Stop


@dataclass
class WarmUp:
    """What has been learned so far: `rows`, from `positions` positions of `texts` texts."""

    rows: Rows = field(default_factory=Rows)
    texts: int = 0
    positions: int = 0

    def read(self, pair: Pair, prompts: Sequence[Prompt], max_new_tokens: int) -> Iterator[tuple[Prompt, str]]:
        """Let the target answer the prompts greedily, of those with several turns the first one.

        Yields every prompt when it is done, with why it was left out (empty where it was read).
        """
        for prompt in prompts:
            asked = prompt.conversation() if prompt.history else prompt.turns[0]
            try:
                tokens, _ = encode_prompt(pair.target.tokenizer, asked)
                self._learn(pair, tokens, max_new_tokens)
            except REFUSALS as error:
                yield prompt, str(error)
            else:
                yield prompt, ""

    def _learn(self, pair: Pair, prompt: list[int], max_new_tokens: int) -> None:
        """Learn one prompt and its answer. Errors: `RunError` where the prompt leaves no room for an answer."""
        policy, drafter = Plain(), Successors(start=self.rows)
        context = context_size(pair, len(prompt), max_new_tokens, policy.capacity, None)
        stop = Stop(pair.target.eos_ids, (), max_new_tokens, context - len(prompt), lambda token: b"")
        with pair.lock:
            target = Target(pair.target.cached(context))
            prefilled = prefill(target, [drafter], prompt, context, policy.capacity)
            rounds = sum(1 for _ in decode(target, policy, [drafter], prefilled, stop, context))
        self.rows = drafter.known()
        self.texts, self.positions = self.texts + 1, self.positions + len(prompt) + rounds
