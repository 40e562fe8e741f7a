"""The best next tokens of logits, as the host's integers."""

from __future__ import annotations

import numpy as np
import torch

from treegraft.trace.records import NATS


def top_tokens(logits: torch.Tensor, k: int, ids: torch.Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The k best tokens of each row and their log-probs in 1e-5 nats, [rows, k] each; one transfer to the host.

    `ids` maps columns of `logits` to token ids where these differ.
    """
    logits = logits.float()
    values, columns = logits.topk(min(k, logits.shape[-1]))
    logprobs = values - logits.logsumexp(-1, keepdim=True)
    tokens = columns if ids is None else ids[columns]
    packed = torch.stack((tokens.float(), logprobs)).cpu().double().numpy()  # token ids below 2**24 are exact
    return packed[0].astype(np.int64), np.rint(packed[1] * NATS).astype(np.int64)
