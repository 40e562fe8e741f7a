"""Tiny models over eight tokens whose answers to every short text are known beforehand, so that a decode is cheap."""

from __future__ import annotations

import copy
import functools
import itertools

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from treegraft.drafters.lm import LM

VOCAB = 8
PROMPT = [3, 4, 5, 3, 4, 5, 3]
LONGEST = 5
"""Tokens behind the prompt that are known. What comes after longer texts has no part in a test of the first three, so
there the answer is that to their beginning."""

CONFIG = LlamaConfig(vocab_size=VOCAB, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                     num_key_value_heads=2, head_dim=8, max_position_embeddings=64, initializer_range=0.28,
                     bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)


@functools.cache
def target() -> torch.nn.Module:
    torch.manual_seed(3)
    return AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32).eval()


@functools.cache
def drafter() -> torch.nn.Module:
    """The target with much noise: often wrong, and too sure of it."""
    model = copy.deepcopy(target())
    torch.manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.6 * weight.std() * torch.randn_like(weight) if weight.numel() > CONFIG.hidden_size else 0
    return model


@functools.cache
@torch.inference_mode()
def answers(model: torch.nn.Module) -> dict[tuple[int, ...], torch.Tensor]:
    """Logits [vocab] after the prompt, its beginnings, and every text of up to `LONGEST` tokens behind it."""
    found = {}
    for length in range(LONGEST + 1):
        texts = list(itertools.product(range(VOCAB), repeat=length))
        rows = torch.tensor([[*PROMPT, *text] for text in texts])
        logits = torch.cat([model(part, use_cache=False).logits for part in rows.split(4096)])
        found |= {(*PROMPT, *text): row[-1] for text, row in zip(texts, logits, strict=True)}
        if length == 0:
            found |= {tuple(PROMPT[: place + 1]): row for place, row in enumerate(logits[0])}
    return found


class Remembered:
    """Stands in for `CachedModel`: looks up what the model would compute for the text that a token sees."""

    max_rows = 512
    device = torch.device("cpu")

    def __init__(self, model: torch.nn.Module) -> None:
        self.length, self.states = 0, {}
        self._answers = answers(model)
        self._tokens = np.zeros(self.max_rows, np.int64)

    def reset(self) -> None:
        self.length = 0

    def watch(self, layers) -> None:
        assert not layers

    def keep(self, start: int, rows: np.ndarray) -> None:
        self._tokens[start:start + len(rows)] = self._tokens[rows]
        self.length = start + len(rows)

    def forward(self, tokens: np.ndarray, positions: np.ndarray, visible: np.ndarray, logits: int = 0) -> torch.Tensor:
        start, self.length = self.length, self.length + len(tokens)
        self._tokens[start: self.length] = tokens
        known = self._tokens[: self.length]
        texts = [tuple(known[row].tolist()[: len(PROMPT) + LONGEST]) for row in visible[-logits:]]
        return torch.stack([self._answers[text] for text in texts])

    def append(self, tokens: np.ndarray, logits: int = 1):
        places = self.length + np.arange(len(tokens))
        yield self.forward(tokens, places, np.arange(self.length + len(tokens)) <= places[:, None], logits)


class RememberedLM(LM):
    def _make_cached(self, rows: int) -> Remembered:
        return Remembered(self.model)
