"""The target while it decodes one text: prefill, verify a tree in one pass, commit the accepted path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from treegraft.drafters.base import Prefilled, States
from treegraft.models.answers import Answers
from treegraft.models.cache import CachedModel
from treegraft.models.sampled_answers import SampledAnswers
from treegraft.models.sampler import Sampler
from treegraft.models.timing import Stopwatch
from treegraft.models.topk import favourites, top_tokens
from treegraft.trace.records import TARGET, Forward
from treegraft.tree import DraftTree


class Target:
    """Decodes one text at a time with a cached model of the target.

    `ask_once` reads all that a trace may keep together with the answers, in one transfer a round: right for a GPU.
    """

    def __init__(self, cached: CachedModel, ask_once: bool | None = None) -> None:
        self.cached = cached
        self.ask_once = cached.device.type != "cpu" if ask_once is None else ask_once
        self.stopwatch = Stopwatch(cached.device)

    def read_forwards(self) -> list[Forward]:
        """The forwards since the last call, with their times."""
        return self.stopwatch.read(TARGET)

    def prefill(self, prompt: list[int], k: int, layers: Sequence[int] = (),
                sampler: Sampler | None = None) -> Prefilled:
        """Read the prompt and choose the first root; with k > 0 also the k best next tokens at every position.

        From now on, until the next prompt, the hidden states of `layers` come along.
        """
        self.cached.reset()
        self.cached.watch(layers)
        tables, seen = [], []
        with self.stopwatch.lap(len(prompt)):
            for logits in self.cached.append(np.array(prompt, np.int64), logits=0 if k else 1):
                seen.append(self.cached.states)
                if k:
                    tables.append(top_tokens(logits, k))
        last = logits[-1:]
        root = int(sampler.pick(sampler.probabilities(last))[0] if sampler else favourites(last))
        empty = np.zeros((0, k), np.int64)
        tokens, logprobs = (np.concatenate(parts) for parts in zip(*tables, strict=True)) if k else (empty, empty)
        states = {layer: torch.cat([chunk[layer] for chunk in seen]) for layer in layers}
        return Prefilled(prompt=prompt, root=root, tokens=tokens, logprobs=logprobs, states=states)

    def verify(self, tree: DraftTree, order: np.ndarray, sampler: Sampler | None = None) -> Answers | SampledAnswers:
        """One forward over the nodes `order` (ascending, closed under parents, the root first)."""
        committed = tree.context - 1
        visible = np.ones((len(order), committed + len(order)), bool)
        visible[:, committed:] = tree.mask[np.ix_(order, order)]
        with self.stopwatch.lap(len(order)):
            logits = self.cached.forward(tree.token[order], tree.positions[order], visible)
        argmax = favourites(logits)
        if sampler:
            return SampledAnswers(tree, order, logits, argmax.cpu().numpy(),
                                  probabilities=sampler.probabilities(logits))
        if not self.ask_once:
            return Answers(tree, order, logits, argmax.cpu().numpy())
        answers = Answers(tree, order, logits, np.zeros(0, np.int64))
        answers.facts = answers.read(np.arange(len(order) - 1), np.arange(len(order)), argmax)
        answers.argmax = answers.facts.argmax
        return answers

    def commit(self, tree: DraftTree, order: np.ndarray, path: np.ndarray) -> States:
        """Keep the cache rows of the root and the accepted path, and forget the rest of the tree.

        Returns the hidden states there, of the layers named at the prefill.
        """
        committed, rows = tree.context - 1, np.searchsorted(order, np.append(0, path))
        self.cached.keep(committed, committed + rows)
        index = torch.from_numpy(rows)
        return {layer: states[index.to(states.device)] for layer, states in self.cached.states.items()}
