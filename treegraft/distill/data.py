"""Training examples and the order in which they are seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

SORTED_TOGETHER = 32
"""Batches whose examples are sorted by length among themselves: little padding, and still a random order."""


@dataclass(frozen=True)
class Example:
    """A conversation as one text. `tokens` [n] hold the prompt and, from index `prompt` on, the target's answer."""

    tokens: np.ndarray
    prompt: int

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Batch:
    """Some examples side by side, padded at the right, where causal attention never looks.

    `tokens` [batch, n] on the device, `lengths` and `prompts` [batch] on the host, `examples` their numbers.
    """

    tokens: torch.Tensor
    lengths: np.ndarray
    prompts: np.ndarray
    examples: np.ndarray

    def predicts(self, token: int) -> torch.Tensor:
        """Bool [batch, n] on the device: positions whose next token is an answer token, `token` places further on."""
        place = np.arange(self.tokens.shape[1]) + token
        inside = (place >= self.prompts[:, None] - 1) & (place < self.lengths[:, None] - 1)
        return torch.from_numpy(inside).to(self.tokens.device)


def collate(examples: Sequence[Example], numbers: np.ndarray, device: torch.device) -> Batch:
    """The examples with these `numbers` as a batch."""
    chosen = [examples[number] for number in numbers]
    lengths = np.array([len(example) for example in chosen])
    tokens = np.zeros((len(chosen), lengths.max()), np.int64)
    for row, example in zip(tokens, chosen, strict=True):
        row[: len(example)] = example.tokens
    return Batch(torch.from_numpy(tokens).to(device), lengths, np.array([example.prompt for example in chosen]),
                 numbers)


def batches(lengths: np.ndarray, numbers: np.ndarray, batch_tokens: int, seed: int, epoch: int) -> list[np.ndarray]:
    """The batches of one epoch, each the numbers of its examples: at most `batch_tokens` tokens, padding counted.

    `lengths` are those of all examples. The order depends on `seed` and `epoch` alone.
    """
    random = np.random.default_rng((seed, epoch))
    order = random.permutation(numbers)
    together = max(1, SORTED_TOGETHER * batch_tokens // max(1, int(lengths[numbers].mean())))
    made: list[np.ndarray] = []
    for start in range(0, len(order), together):
        group = order[start:start + together]
        made += pack(group[np.argsort(lengths[group], kind="stable")], lengths, batch_tokens)
    return [made[place] for place in random.permutation(len(made))]


def pack(numbers: np.ndarray, lengths: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """Cut `numbers`, sorted by length, into runs whose padded size stays below `batch_tokens`."""
    packed, start = [], 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or lengths[numbers[end]] * (end + 1 - start) > batch_tokens:
            packed.append(numbers[start:end])
            start = end
    return packed


def held_out(count: int, share: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the examples to train on and, `share` of them, to validate on."""
    order = np.random.default_rng((seed, count)).permutation(count)
    return np.sort(order[share:]), np.sort(order[:share])
