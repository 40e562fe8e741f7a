"""A DFlash drafter with a preallocated cache of the text's keys and values."""

from __future__ import annotations

import statistics
from functools import partial

import numpy as np
import torch
from torch.nn.functional import embedding, scaled_dot_product_attention

from treegraft.models.cache import COST_CONTEXT, COST_REPEATS, PREFILL_CHUNK
from treegraft.models.dflash import BlockNet
from treegraft.models.timing import Stopwatch


class CachedBlock:
    """Runs a block network behind a text. A row of the cache is a position of the text; `length` of `max_rows` are in
    use. `embeddings` [vocab, hidden] are what the network knows tokens by; batch size 1.

    The block's own keys and values lie behind the text's for the one forward, and are written over by the next.
    """

    def __init__(self, net: BlockNet, embeddings: torch.Tensor, max_rows: int) -> None:
        self.net, self.embeddings, self.max_rows = net, embeddings, max_rows
        self.length = 0
        attention = net.layers[0].self_attn
        shape = (len(net.layers), 1, attention.k_proj.out_features // attention.dim, max_rows + net.config.block,
                 attention.dim)
        self._keys, self._values = torch.zeros((2, *shape), dtype=self.dtype, device=self.device)
        self._cost_points: list[tuple[int, int]] = []

    @property
    def device(self) -> torch.device:
        return self.net.fc.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.net.fc.weight.dtype

    def append(self, aux: torch.Tensor) -> None:
        """Append the next positions of the text by the target's hidden states [n, layers * hidden]."""
        if self.length + len(aux) > self.max_rows:
            raise IndexError(f"the cache holds {self.max_rows} rows; {self.length + len(aux)} were asked for")
        for chunk in aux.split(PREFILL_CHUNK):
            end = self.length + len(chunk)
            positions = torch.arange(self.length, end, device=self.device)[None]
            known = self.net.context(chunk.to(self.device, self.dtype)[None], positions)
            for index, (keys, values) in enumerate(known):
                self._keys[index, :, :, self.length:end] = keys
                self._values[index, :, :, self.length:end] = values
            self.length = end

    def fill(self, root: int, size: int) -> torch.Tensor:
        """What an output head reads at `size` places: the token `root` behind the text, and masks; [size, hidden]."""
        config = self.net.config
        tokens = np.full(size, config.mask)
        tokens[0] = root
        positions = np.arange(self.length, self.length + size)
        place = torch.from_numpy(np.stack((tokens, positions))).to(self.device)
        masks = {seen: self._mask(positions, *seen) for seen in set(zip(config.windows, config.causal, strict=True))}
        return self.net(embedding(place[:1], self.embeddings), place[1:], partial(self._attend, masks))[0]

    def _mask(self, positions: np.ndarray, window: int | None, causal: bool) -> torch.Tensor | None:
        """Which rows each token of the block sees, bool [n, length + n]; None for all."""
        if window is None and not causal:
            return None
        ahead = np.arange(positions[-1] + 1) - positions[:, None]
        seen = ahead <= 0 if causal else np.ones_like(ahead, bool)
        if window is not None:
            seen = seen & (abs(ahead) < window)
        return torch.from_numpy(seen).to(self.device)

    def _attend(self, masks: dict[tuple[int | None, bool], torch.Tensor | None], layer: int, queries: torch.Tensor,
                keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Attention over the text and the block. The queries that share a key head go side by side, as if they were
        further tokens: so nothing is repeated and every kernel takes the mask."""
        config, heads, end = self.net.config, keys.shape[1], self.length + keys.shape[2]
        self._keys[layer, :, :, self.length:end] = keys
        self._values[layer, :, :, self.length:end] = values
        mask = masks[config.windows[layer], config.causal[layer]]
        mixed = scaled_dot_product_attention(
            queries.reshape(1, heads, -1, queries.shape[-1]), self._keys[layer, :, :, :end],
            self._values[layer, :, :, :end],
            attn_mask=None if mask is None else mask.repeat(queries.shape[1] // heads, 1))
        return mixed.reshape(queries.shape)

    @torch.inference_mode()
    def cost_points(self, head: torch.nn.Module) -> list[tuple[int, int]]:
        """[tokens, median microseconds] of filling a block behind a context of 256, the scores of `head` included: one
        point, as a block has one size. Measured once; uses the cache, so not while a text is decoded."""
        if not self._cost_points:
            size, stopwatch = self.net.config.block, Stopwatch(self.device)
            self.length = min(COST_CONTEXT, self.max_rows)
            for _ in range(1 + COST_REPEATS):
                with stopwatch.lap(size):
                    head(self.fill(0, size)).argmax(-1)
            self.length = 0
            warm = [lap.microseconds for lap in stopwatch.read(model=0)[1:]]
            self._cost_points = [(size, round(statistics.median(warm)))]
        return self._cost_points
