"""Many texts written side by side by one causal LM: a text that ends makes room for the next one at once.

The texts in work are the first rows of a preallocated KV cache, each with its own length. A step is one forward over
the newest token of each row. Which tokens a text gets depends on its own prompt and random numbers, not on its
neighbours, but for the rounding of floats: the same jobs on the same rows always give the same texts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache

from treegraft.models.cache import PreallocatedLayer, attention_windows, cache_argument, plain_layers
from treegraft.models.topk import favourites


@dataclass(frozen=True)
class Job:
    """A text to write: what follows `prompt` (at least one token), at a temperature (0: greedy).

    `uniforms` are in [0, 1), one for each token that may be written at most.
    """

    prompt: Sequence[int]
    temperature: float
    uniforms: np.ndarray


@dataclass
class Row:
    """A job in work."""

    number: int
    job: Job
    written: list[int] = field(default_factory=list)

    @property
    def position(self) -> int:
        """Place in the text of its newest token, which no forward has read yet."""
        return len(self.job.prompt) - 1 + len(self.written)

    @property
    def newest(self) -> int:
        return self.written[-1] if self.written else self.job.prompt[-1]

    def is_finished(self, stop: AbstractSet[int]) -> bool:
        return self.written[-1] in stop or len(self.written) == len(self.job.uniforms)


# --- keys and values ------------------------------------------------------------------------------------------------


class BatchLayer(PreallocatedLayer):
    """Keys and values [rows, heads, length, dim] of one layer, written at the places that `cache` tells."""

    def __init__(self, cache: BatchCache, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__(keys, values)
        self.cache = cache

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args,
               **kwargs) -> tuple[torch.Tensor, torch.Tensor]:
        count, _, tokens, _ = key_states.shape
        first, positions = self.cache.first, self.cache.positions
        if positions is None:
            self.keys[first:first + count, :, :tokens] = key_states
            self.values[first:first + count, :, :tokens] = value_states
            return key_states, value_states
        rows = torch.arange(count, device=positions.device)
        self.keys[rows, :, positions] = key_states[:, :, 0]
        self.values[rows, :, positions] = value_states[:, :, 0]
        return self.keys[:count, :, :self.cache.end], self.values[:count, :, :self.cache.end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.cache.end, 0

    def get_seq_length(self) -> int:
        return self.cache.end


class BatchCache(Cache):
    """Keys and values of all layers for `rows` texts of at most `length` tokens, shaped as `shapes` has them for one.

    New texts go to the rows from `first` on and see themselves alone (`positions` is None); else each row gets one
    token, at its place in `positions` [rows], and sees the first `end` places of its row.
    """

    def __init__(self, shapes: DynamicCache, rows: int, length: int) -> None:
        self.first, self.end = 0, 0
        self.positions: torch.Tensor | None = None
        layers = []
        for layer in plain_layers(shapes):
            sizes = [(rows, state.shape[1], length, state.shape[3]) for state in (layer.keys, layer.values)]
            layers.append(BatchLayer(self, layer.keys.new_zeros(sizes[0]), layer.values.new_zeros(sizes[1])))
        super().__init__(layers=layers)

    @torch.inference_mode()
    def move(self, source: int, to: int) -> None:
        """Let row `to` hold what row `source` holds."""
        for layer in self.layers:
            layer.keys[to] = layer.keys[source]
            layer.values[to] = layer.values[source]


# --- decoding -------------------------------------------------------------------------------------------------------


class BatchDecoder:
    """Writes texts with a model, at most `rows` at a time and each of at most `length` tokens, prompt included.

    `vocab` cuts the logits to the tokens that the tokenizer has. Errors: `UnsupportedModel`.
    """

    def __init__(self, model: PreTrainedModel, rows: int, length: int, vocab: int) -> None:
        self.model, self.rows, self.vocab = model, rows, vocab
        self.device = model.get_input_embeddings().weight.device
        self._cache_argument = cache_argument(model)
        self._windows = attention_windows(model)
        with torch.inference_mode():
            probe = DynamicCache()
            model(torch.zeros((1, 1), dtype=torch.long, device=self.device), **{self._cache_argument: probe},
                  use_cache=True)
            self.cache = BatchCache(probe, rows, length)

    def write(self, jobs: Sequence[Job], stop: AbstractSet[int], top_p: float = 1.0) -> Iterator[tuple[int, list[int]]]:
        """The number of each job and what it wrote, its stop token included, in the order in which they end.

        With `top_p` below 1, warm jobs choose among the likeliest tokens that hold this share of the probability.
        """
        waiting = deque(Row(number, job) for number, job in enumerate(jobs))
        rows: list[Row] = []
        while waiting or rows:
            new = [waiting.popleft() for _ in range(min(len(waiting), self.rows - len(rows)))]
            self._read_prompts(new, len(rows))
            rows += new
            for row, token in zip(rows, self._step(rows, top_p), strict=True):
                row.written.append(token)
            for place in reversed(range(len(rows))):
                if rows[place].is_finished(stop):
                    yield rows[place].number, rows[place].written
                    self._remove(rows, place)

    def _remove(self, rows: list[Row], place: int) -> None:
        """Take a row out and close the gap with the last one."""
        last = rows.pop()
        if place < len(rows):
            rows[place] = last
            self.cache.move(len(rows), place)

    @torch.inference_mode()
    def _read_prompts(self, new: Sequence[Row], first: int) -> None:
        """Read all but the last token of some prompts into the rows from `first` on.

        Shorter ones are padded at the right; what the cache holds there is overwritten before it is seen.
        """
        longest = max((row.position for row in new), default=0)
        if longest == 0:
            return
        tokens = torch.tensor([[*row.job.prompt[:-1], *[0] * (longest - row.position)] for row in new],
                              device=self.device)
        self.cache.first, self.cache.positions, self.cache.end = first, None, longest
        self._forward(tokens, torch.arange(longest, device=self.device)[None])

    @torch.inference_mode()
    def _step(self, rows: Sequence[Row], top_p: float) -> list[int]:
        """The next token of each row."""
        places = [row.position for row in rows]
        tokens, positions = torch.tensor([[row.newest for row in rows], places], device=self.device)
        temperatures, uniforms = torch.tensor(
            [[row.job.temperature for row in rows], [row.job.uniforms[len(row.written)] for row in rows]],
            dtype=summing_dtype(self.device), device=self.device)
        self.cache.positions, self.cache.end = positions, max(places) + 1
        logits = self._forward(tokens[:, None], positions[:, None])
        return sample(logits, temperatures, uniforms, top_p).tolist()

    def _forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits [rows, vocab] after the last of `tokens` [rows, n], which stand at `positions` [rows or 1, n]."""
        output = self.model(
            input_ids=tokens, position_ids=positions.expand(len(tokens), -1), attention_mask=self._mask(positions),
            use_cache=True, logits_to_keep=1, **{self._cache_argument: self.cache})
        return output.logits[:, -1, :self.vocab].float()

    def _mask(self, positions: torch.Tensor) -> torch.Tensor | dict[str, torch.Tensor]:
        """The additive mask [rows or 1, 1, n, end], one a layer type where layers differ."""
        behind = positions[:, None, :, None] - torch.arange(self.cache.end, device=self.device)
        masks = {}
        for kind, window in self._windows.items():
            hidden = behind < 0 if window is None else (behind < 0) | (behind >= window)
            mask = torch.zeros(hidden.shape, dtype=self.model.dtype, device=self.device)
            masks[kind] = mask.masked_fill_(hidden, torch.finfo(self.model.dtype).min)
        return masks if len(masks) > 1 else next(iter(masks.values()))


def summing_dtype(device: torch.device) -> torch.dtype:
    """In what probabilities are summed: float64, which Apple's GPUs lack."""
    return torch.float if device.type == "mps" else torch.double


def sample(logits: torch.Tensor, temperatures: torch.Tensor, uniforms: torch.Tensor, top_p: float) -> torch.Tensor:
    """A token [rows] for each row of `logits` [rows, vocab]: the best at temperature 0, else the one at which the
    cumulative probability passes the row's uniform number. For `top_p` see `BatchDecoder.write`."""
    warmth = torch.where(temperatures > 0, temperatures, 1).to(logits.dtype)
    probabilities = (logits / warmth[:, None]).softmax(-1)
    ids = None
    if top_p < 1:
        probabilities, ids = probabilities.sort(descending=True, stable=True)
    reached = probabilities.cumsum(-1, dtype=summing_dtype(logits.device))
    last = (reached < top_p * reached[:, -1:]).sum(-1, keepdim=True)
    aims = uniforms[:, None] * reached.gather(1, last)
    column = torch.searchsorted(reached, aims, right=True).minimum(last)
    drawn = column if ids is None else ids.gather(1, column)
    return torch.where(temperatures > 0, drawn[:, 0], favourites(logits))
