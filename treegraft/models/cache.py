"""A causal LM with a preallocated KV cache whose rows the caller addresses: append, keep a path, crop."""

from __future__ import annotations

import inspect
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, DynamicLayer

from treegraft.models.capture import LayerStates
from treegraft.models.errors import LoadError
from treegraft.models.timing import Stopwatch

PREFILL_CHUNK = 512
"""Prompt tokens in one forward: bounds the size of masks and logits."""

COST_SIZES = (1, 8, 16, 32, 64)
COST_CONTEXT = 256
COST_REPEATS = 3
"""A cost curve: tokens a forward, behind how many cached ones, and how often each is timed."""


class UnsupportedModel(LoadError):
    """The model's attention or cache cannot carry a draft tree; the text says why."""


class PreallocatedLayer(CacheLayerMixin):
    """Keys and values [.., rows, dim] of one layer that exist from the start. Subclasses say where new ones go."""

    is_sliding = False

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.keys, self.values = keys, values
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """There is nothing left to do."""

    def get_max_length(self) -> int:
        return self.keys.shape[-2]

    get_max_cache_shape = get_max_length


def plain_layers(shapes: DynamicCache) -> list[DynamicLayer]:
    """The layers of a cache that a model has filled. Errors: `UnsupportedModel` unless all keep keys and values."""
    for index, layer in enumerate(shapes.layers):
        if getattr(layer, "keys", None) is None or layer.keys.ndim != 4:
            raise UnsupportedModel(f"Layer {index} of the model keeps {type(layer).__name__} state, not plain keys and "
                                   "values, so several texts or branches cannot stand side by side in it. Use a model "
                                   "whose layers are all attention (full or sliding window).")
    return shapes.layers


class RowLayer(PreallocatedLayer):
    """One layer's rows: writes new keys and values in place behind `rows.length` and returns views."""

    def __init__(self, rows: RowCache, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__(keys, values)
        self.rows = rows

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args,
               **kwargs) -> tuple[torch.Tensor, torch.Tensor]:
        start = self.rows.length
        end = start + key_states.shape[-2]
        self.keys[:, :, start:end] = key_states
        self.values[:, :, start:end] = value_states
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.rows.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.rows.length


class RowCache(Cache):
    """Keys and values of all layers in a few large tensors [layers, 1, heads, rows, dim], so that moving rows is one
    call a tensor. `length` rows are in use."""

    def __init__(self, shapes: DynamicCache, max_rows: int) -> None:
        self.length = 0
        self.buffers = []
        groups = defaultdict(list)
        for index, layer in enumerate(plain_layers(shapes)):
            for name in ("keys", "values"):
                tensor = getattr(layer, name)
                groups[(tensor.shape[1], tensor.shape[3], tensor.dtype, tensor.device)].append((index, name))
        views: dict[tuple[int, str], torch.Tensor] = {}
        for (heads, dim, dtype, device), members in groups.items():
            buffer = torch.zeros((len(members), 1, heads, max_rows, dim), dtype=dtype, device=device)
            self.buffers.append(buffer)
            views.update(zip(members, buffer, strict=True))
        super().__init__(layers=[RowLayer(self, views[i, "keys"], views[i, "values"])
                                 for i in range(len(shapes.layers))])

    def keep(self, start: int, rows: np.ndarray) -> None:
        """Move `rows` to directly behind the first `start` rows and forget all others."""
        end = start + len(rows)
        if not np.array_equal(rows, np.arange(start, end)):
            for buffer in self.buffers:
                index = torch.from_numpy(rows).to(buffer.device)
                buffer[..., start:end, :] = buffer.index_select(-2, index)
        self.length = end


class CachedModel:
    """Runs a Hugging Face causal LM over tokens that see a chosen set of cached rows.

    `max_rows` is how many tokens the cache holds. `vocab` cuts the logits to the tokens that the tokenizer has
    (embedding matrices are often padded). Batch size is 1.

    Errors: `UnsupportedModel` for a model whose attention cannot follow a tree.
    """

    def __init__(self, model: PreTrainedModel, max_rows: int, vocab: int | None = None) -> None:
        self.model = model
        self.max_rows = max_rows
        self.vocab = vocab
        self.device = model.get_input_embeddings().weight.device
        self.dtype = model.dtype
        self._cache_argument = cache_argument(model)
        self._windows = attention_windows(model)
        self._positions = np.zeros(max_rows, np.int64)
        self._cost_points: list[tuple[int, int]] = []
        self._watched: Sequence[int] = ()
        self._seen = LayerStates(model, ())
        with torch.inference_mode():
            probe = DynamicCache()
            model(torch.zeros((1, 1), dtype=torch.long, device=self.device), **{self._cache_argument: probe},
                  use_cache=True)
            self.cache = RowCache(probe, max_rows)

    @property
    def length(self) -> int:
        """Rows in use."""
        return self.cache.length

    def reset(self) -> None:
        self.cache.length = 0

    def watch(self, layers: Sequence[int]) -> None:
        """Keep the hidden states of these layers (from 0) at every forward from now on."""
        if list(layers) != list(self._watched):
            self._seen.close()
            self._watched, self._seen = layers, LayerStates(self.model, layers)

    @property
    def states(self) -> dict[int, torch.Tensor]:
        """The hidden states [n, hidden] of the watched layers at the latest forward."""
        return {layer: states[0] for layer, states in self._seen.latest.items()}

    @torch.inference_mode()
    def keep(self, start: int, rows: np.ndarray) -> None:
        """Make `rows` (int64 row numbers) the rows start, start + 1, ...; forget all behind them."""
        self._positions[start:start + len(rows)] = self._positions[rows]
        self.cache.keep(start, rows)

    @torch.inference_mode()
    def forward(self, tokens: np.ndarray, positions: np.ndarray, visible: np.ndarray, logits: int = 0) -> torch.Tensor:
        """Append `tokens` as rows and return logits [n, vocab] of the last `logits` of them (0: of all).

        `positions` are places in the text. `visible` is bool [n, length + n]: which rows each token attends to, the
        tokens themselves being the last n columns.
        """
        start, end = self.length, self.length + len(tokens)
        if end > self.max_rows:
            raise IndexError(f"the cache holds {self.max_rows} tokens; {end} were asked for")
        self._positions[start:end] = positions
        output = self.model(
            input_ids=torch.from_numpy(np.ascontiguousarray(tokens))[None].to(self.device),
            position_ids=torch.from_numpy(np.ascontiguousarray(positions))[None].to(self.device),
            attention_mask=self._mask(positions, visible), use_cache=True, logits_to_keep=logits,
            **{self._cache_argument: self.cache})
        self.cache.length = end
        return output.logits[0, :, :self.vocab]

    def append(self, tokens: np.ndarray, logits: int = 1) -> Iterator[torch.Tensor]:
        """Append running text a chunk at a time, yielding each chunk's logits (see `forward`)."""
        for chunk in np.array_split(tokens, range(PREFILL_CHUNK, len(tokens), PREFILL_CHUNK)):
            positions = np.arange(self.length, self.length + len(chunk))
            visible = np.arange(self.length + len(chunk)) <= positions[:, None]
            yield self.forward(chunk, positions, visible, logits)

    def cost_points(self) -> list[tuple[int, int]]:
        """[tokens, median microseconds] of forwards over 1 to 64 tokens behind a context of 256; measured once.

        Where the cache or the model's positions end before, the context is shorter, and sizes that do not fit are left
        out. Uses the cache, so not while a text is decoded.
        """
        if not self._cost_points:
            room = min(self.max_rows, position_limit(self.model.config) or self.max_rows)
            self._cost_points = time_forwards(self._forward_behind, room, self.device)
            self.reset()
        return self._cost_points

    def _forward_behind(self, context: int, tokens: int) -> None:
        self.cache.length = context
        self._positions[:context] = np.arange(context)
        for logits in self.append(np.zeros(tokens, np.int64), logits=0):
            logits.argmax(-1)

    def _mask(self, positions: np.ndarray, visible: np.ndarray) -> torch.Tensor | dict[str, torch.Tensor]:
        """The additive 4-D mask, one a layer type where layers differ."""
        masks = {}
        for kind, window in self._windows.items():
            seen = visible
            if window is not None:
                seen = visible & (positions[:, None] - self._positions[: visible.shape[1]] < window)
            mask = torch.zeros(seen.shape, dtype=self.dtype)
            mask.masked_fill_(torch.from_numpy(~seen), torch.finfo(self.dtype).min)
            masks[kind] = mask[None, None].to(self.device)
        return masks if len(masks) > 1 else next(iter(masks.values()))


def time_forwards(forward: Callable[[int, int], None], room: int, device: torch.device) -> list[tuple[int, int]]:
    """[tokens, median microseconds] of `forward(context, tokens)` for 1 to 64 tokens behind a context of 256.

    `room` bounds context and tokens together: the context is shorter where they do not fit, larger sizes left out.
    """
    points = []
    for tokens in COST_SIZES:
        if tokens <= room:
            stopwatch = Stopwatch(device)
            for _ in range(1 + COST_REPEATS):
                with stopwatch.lap(tokens):
                    forward(min(COST_CONTEXT, room - tokens), tokens)
            warm = [lap.microseconds for lap in stopwatch.read(model=0)[1:]]
            points.append((tokens, round(statistics.median(warm))))
    return points


def cache_argument(model: PreTrainedModel) -> str:
    """The name under which the model's forward takes its KV cache."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def position_limit(config: PreTrainedConfig) -> int | None:
    """Tokens that the model was made for, None where its configuration does not say."""
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def attention_windows(model: PreTrainedModel) -> dict[str, int | None]:
    """Sliding window (tokens, None for full attention) by layer type, for the layer types that the model has.

    Errors: `UnsupportedModel` for any other kind of attention, and for a model that works out positions by itself:
    the branches of a tree stand side by side in the cache, but each at its own place in the text.
    """
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ["sliding_attention" if window else "full_attention"])
    kinds |= {f"{kind} attention" for kind in getattr(config, "attention_layers", ()) if kind != "global"}
    known = {"full_attention": None, "sliding_attention": window}
    if kinds - known.keys():
        raise UnsupportedModel(f"The model has layers of type {', '.join(sorted(kinds - known.keys()))}; draft trees "
                               f"need full_attention or sliding_attention throughout.")
    if getattr(config, "alibi", False) or "position_ids" not in inspect.signature(model.forward).parameters:
        raise UnsupportedModel(f"The {config.model_type} model derives the places of tokens from their order in its "
                               "cache (as ALiBi does), which the branches of a draft tree do not follow. Use a model "
                               "that takes position_ids, such as a Llama, Qwen, Mistral or Gemma.")
    return {kind: known[kind] for kind in sorted(kinds)}
