"""An EAGLE-3 head with a preallocated KV cache whose rows the caller addresses."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch.nn.functional import embedding, scaled_dot_product_attention

from treegraft.models.cache import position_limit, time_forwards
from treegraft.models.eagle3 import Eagle3Head


class CachedHead:
    """Runs a head over tokens that see a chosen set of cached rows.

    A row pairs the state at one position of the text with the token at the next. `embeddings` [vocab, hidden] are what
    the head knows tokens by. `max_rows` is how many rows the cache holds, `length` how many are in use; batch size 1.
    """

    def __init__(self, head: Eagle3Head, embeddings: torch.Tensor, max_rows: int) -> None:
        self.head, self.embeddings, self.max_rows = head, embeddings, max_rows
        self.length = 0
        attention = head.layers[0].self_attn
        shape = (len(head.layers), 1, attention.k_proj.out_features // attention.dim, max_rows, attention.dim)
        self._keys, self._values = torch.zeros((2, *shape), dtype=self.dtype, device=self.device)
        self._cost_points: list[tuple[int, int]] = []

    @property
    def device(self) -> torch.device:
        return self.head.fc.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.head.fc.weight.dtype

    def fuse(self, aux: torch.Tensor) -> torch.Tensor:
        """The head's states [n, hidden] for the target's [n, layers * target hidden]."""
        return self.head.fuse(aux.to(self.device, self.dtype))

    def forward(self, tokens: np.ndarray, state: torch.Tensor, positions: np.ndarray,
                visible: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Append rows of `tokens` and `state` [n, hidden]; returns the next state and what `lm_head` reads, alike.

        `positions` are those of the state. `visible` is bool [n, length + n]: which rows each one attends to, the new
        ones being the last n columns.
        """
        end = self.length + len(tokens)
        if end > self.max_rows:
            raise IndexError(f"the cache holds {self.max_rows} rows; {end} were asked for")
        place = torch.from_numpy(np.stack((tokens, positions))).to(self.device)
        mask = torch.from_numpy(visible).to(self.device)
        state, reading = self.head(embedding(place[:1], self.embeddings), state[None], place[1:],
                                   partial(self._attend, mask))
        self.length = end
        return state[0], reading[0]

    def _attend(self, mask: torch.Tensor, layer: int, queries: torch.Tensor, keys: torch.Tensor,
                values: torch.Tensor) -> torch.Tensor:
        """Attention over the cached rows. The queries that share a key head go side by side, as if they were further
        tokens: so nothing is repeated and every kernel takes the mask."""
        heads, end = keys.shape[1], self.length + keys.shape[2]
        self._keys[layer, :, :, self.length:end] = keys
        self._values[layer, :, :, self.length:end] = values
        mixed = scaled_dot_product_attention(
            queries.reshape(1, heads, -1, queries.shape[-1]), self._keys[layer, :, :, :end],
            self._values[layer, :, :, :end], attn_mask=mask.repeat(queries.shape[1] // heads, 1))
        return mixed.reshape(queries.shape)

    @torch.inference_mode()
    def cost_points(self) -> list[tuple[int, int]]:
        """[tokens, median microseconds] of a draft step over 1 to 64 nodes behind 256 rows, the scores of all draft
        tokens included; measured once. Uses the cache, so not while a text is decoded."""
        if not self._cost_points:
            room = min(self.max_rows, position_limit(self.head.config.layer) or self.max_rows)
            self._cost_points = time_forwards(self._forward_behind, room, self.device)
            self.length = 0
        return self._cost_points

    def _forward_behind(self, context: int, tokens: int) -> None:
        self.length = context
        positions = np.arange(context, context + tokens)
        state = torch.zeros((tokens, self.embeddings.shape[1]), dtype=self.dtype, device=self.device)
        _, reading = self.forward(np.zeros(tokens, np.int64), state, positions,
                                  np.arange(context + tokens) <= positions[:, None])
        self.head.lm_head(reading).argmax(-1)
