"""The next-token logits of the nodes that a drafter has read in this round."""

from __future__ import annotations

import numpy as np
import torch

from treegraft.models.sampler import Sampler
from treegraft.models.topk import top_tokens
from treegraft.trace.records import NATS

UNLISTED = 5 * NATS
"""How far below a row's least probable token one counts that the drafter does not score."""


IMPOSSIBLE = -1e6
"""Nats at which a log-prob is cut: of tokens that the model itself rules out."""


class NodeScores:
    """Logits by node, kept forward by forward on their device, so that a node is read once however often it is asked.

    `ids` maps columns of the logits to token ids where these differ; `capacity` bounds the node ids.
    """

    def __init__(self, capacity: int, ids: torch.Tensor | None = None) -> None:
        self._ids = ids
        self._column = columns_by_token(ids) if ids is not None else None
        self._place = np.full((2, capacity), -1)
        self._batches: list[torch.Tensor] = []

    def clear(self) -> None:
        """Forget the round."""
        self._batches.clear()
        self._place[:] = -1

    def add(self, nodes: np.ndarray, logits: torch.Tensor) -> None:
        """Keep the logits [nodes, columns] of nodes that have none yet."""
        self._place[:, nodes] = np.full(len(nodes), len(self._batches)), np.arange(len(nodes))
        self._batches.append(logits)

    def missing(self, nodes: np.ndarray) -> np.ndarray:
        """Those of `nodes` without logits."""
        return nodes[self._place[0, nodes] < 0]

    def best(self, nodes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best next tokens of each node and their log-probs in 1e-5 nats, [nodes, k] each."""
        return top_tokens(self._rows(nodes), k, self._ids)

    def judge(self, parents: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log-prob of each token after its parent, and whether the drafter does not score it: [parents] each.

        Such a token counts as less probable than all that are scored, by `UNLISTED`.
        """
        rows, row = np.unique(parents, return_inverse=True)
        logits = self._rows(rows).float()
        columns = tokens if self._column is None else self._column[np.minimum(tokens, len(self._column) - 1)]
        unscored = columns < 0
        at = torch.from_numpy(np.stack((row, np.maximum(columns, 0)))).to(logits.device)
        chosen = logits[at[0], at[1]]
        if unscored.any():
            least = logits.amin(-1)[at[0]]
            chosen = torch.where(torch.from_numpy(unscored).to(logits.device), least, chosen)
        logprobs = (chosen - logits.logsumexp(-1)[at[0]]).cpu().double().numpy()
        return np.rint(np.maximum(logprobs, IMPOSSIBLE) * NATS).astype(np.int64) - UNLISTED * unscored, unscored

    def distribution(self, nodes: np.ndarray, sampler: Sampler) -> np.ndarray:
        """What tokens after each node are drawn from, by token id: [nodes, vocab], 0 for tokens that are not scored."""
        known = sampler.probabilities(self._rows(nodes))
        whole = np.zeros((len(nodes), sampler.vocab))
        whole[:, np.arange(known.shape[1]) if self._ids is None else self._ids.cpu().numpy()] = known
        return whole

    def _rows(self, nodes: np.ndarray) -> torch.Tensor:
        """The logits of `nodes`, in their order."""
        batch, row = self._place[:, nodes]
        if (batch == batch[0]).all():
            logits = self._batches[batch[0]]
            whole = len(row) == len(logits) and np.array_equal(row, np.arange(len(row)))
            return logits if whole else logits[torch.from_numpy(row).to(logits.device)]
        parts = [self._batches[one][torch.from_numpy(row[batch == one]).to(self._batches[one].device)]
                 for one in np.unique(batch)]
        order = np.argsort(np.argsort(batch, kind="stable"), kind="stable")
        return torch.cat(parts)[torch.from_numpy(order).to(parts[0].device)]


def columns_by_token(ids: torch.Tensor) -> np.ndarray:
    """The column of every token id up to the highest, -1 for those without one and, last, for all beyond."""
    ids = ids.cpu().numpy()
    columns = np.full(int(ids.max()) + 2, -1)
    columns[ids] = np.arange(len(ids))
    return columns
