"""The best next tokens of logits, as the host's integers."""

from __future__ import annotations

import numpy as np
import torch

from treegraft.trace.records import NATS

BLOCK = 128
"""Columns in a block: the CPU finds the blocks that hold the best tokens first, several times as fast as `topk`."""


def favourites(logits: torch.Tensor) -> torch.Tensor:
    """The best column [rows] of logits [rows, vocab], the first one where several are equal."""
    vocab = logits.shape[-1]
    if logits.device.type != "cpu" or vocab % BLOCK:
        return logits.argmax(-1)
    blocks = logits.unflatten(-1, (-1, BLOCK))
    best = blocks.amax(-1).argmax(-1)
    inside = blocks[torch.arange(len(logits)), best].argmax(-1)
    return best * BLOCK + inside


def top_columns(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and columns of the k best of each row, best first: `topk`, fast on a CPU too."""
    vocab = logits.shape[-1]
    if logits.device.type != "cpu" or vocab % BLOCK or vocab < 4 * k * BLOCK:
        return logits.topk(min(k, vocab))
    blocks = logits.unflatten(-1, (-1, BLOCK))
    best = blocks.amax(-1).topk(k, sorted=False).indices
    values, places = blocks[torch.arange(len(logits))[:, None], best].flatten(1).topk(k)
    return values, best.gather(1, places // BLOCK) * BLOCK + places % BLOCK


def lowest_first(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The order [rows, k] that puts values best first and of equal ones the lowest column, as `favourites` chooses."""
    return np.lexsort((columns, -values), axis=-1)


def top_tokens(logits: torch.Tensor, k: int, ids: torch.Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The k best tokens of each row and their log-probs in 1e-5 nats, [rows, k] each; one transfer to the host.

    `ids` maps columns of `logits` to token ids where these differ.
    """
    logits = logits.float()
    values, columns = top_columns(logits, k)
    logprobs = values - logits.logsumexp(-1, keepdim=True)
    tokens = columns if ids is None else ids[columns]
    packed = torch.stack((tokens.float(), logprobs)).cpu().double().numpy()  # token ids below 2**24 are exact
    return packed[0].astype(np.int64), np.rint(packed[1] * NATS).astype(np.int64)
