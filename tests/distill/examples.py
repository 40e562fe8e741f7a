"""Small random conversations to train on."""

from __future__ import annotations

import numpy as np

from tests import tiny
from treegraft.distill.data import Example


def random_examples(count: int, seed: int = 0, vocab: int = tiny.VOCAB) -> list[Example]:
    """Prompts of 2 to 6 tokens with answers of 3 to 20."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        prompt, answer = random.integers(2, 7), random.integers(3, 21)
        made.append(Example(random.integers(3, vocab, prompt + answer), int(prompt)))
    return made
