"""What the public layouts of DFlash drafters say: configuration, layer ids, which tokens of a block see which.

- z-lab (z-lab/dflash, `dflash/model.py`; SpecForge and SGLang read and write the same): the keys of a Qwen3
  configuration plus `block_size`, `num_target_layers` and `dflash_config` with `mask_token_id` and `target_layer_ids`;
  each of these may stand in `dflash_config` or at the top. Tensors `fc`, `hidden_norm`, `layers.N.*`, `norm`;
  embeddings and output head are the target's.
- speculators (vllm-project/speculators, `src/speculators/models/dflash`): `speculators_model_type`, the layers'
  configuration in `transformer_layer_config`, `aux_hidden_state_layer_ids`, `mask_token_id`, `sample_from_anchor`; a
  smaller `draft_vocab_size` comes with `lm_head`, `d2t` and `t2d`, as in EAGLE-3 heads.

Layer ids count from 0. Ours are "after the layer": id n is what layer n puts out.
- `target_layer_ids` mean the same (z-lab reads `hidden_states[id + 1]`). The last layer is refused: the public codes
  differ on whether the target's last norm comes before. Where none are stored, as many as the drafter has layers lie
  evenly from 1 to L - 3 of the target's L (`build_target_layer_ids`).
- `aux_hidden_state_layer_ids` are "before the layer", as in EAGLE-3 heads of speculators (vllm-project/vllm#40727): n
  is what layer n reads, hence our n - 1; the number of layers stands for what the last one puts out.

All tokens of a block see one another unless `is_causal` says otherwise; where it does not say, a layer with a sliding
window is causal (z-lab, vLLM). In speculators only layers with a sliding window can be, by `sliding_window_non_causal`.
"""

from __future__ import annotations

from typing import Any

import torch

from treegraft.models.dflash import BlockConfig
from treegraft.models.eagle3_layouts import MAX_SIZE, layer_config, size
from treegraft.models.errors import LoadError
from treegraft.models.weights import Source

MAX_BLOCK = 256
MAX_IDS = 64
DEFAULT_BLOCK = 16
"""Tokens of a block where z-lab's configuration does not say; speculators always says."""

FULL, SLIDING = "full_attention", "sliding_attention"

OFF, ONE, TRUE = (False, 0), (1,), (True,)
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "projector_type": ("dflash",), "attention_mode": ("gqa", "mha"), "attention_modes": (), "use_swa": OFF,
    "attention_sink_bias": OFF, "add_swa_attention_sink_bias": OFF, "attention_value_scale": ONE, "shift_label": OFF,
    "conv_kernel_size": OFF, "conv_group_size": OFF, "selector_rank": OFF, "selector_top_k": OFF, "markov_rank": OFF,
    "output_multiplier": ONE, "final_logit_softcapping": OFF, "logit_scale": ONE, "input_embedding_scale": ONE,
    "is_neox_style": TRUE, "rope_is_neox_style": TRUE, "use_aux_hidden_state": TRUE}
"""Keys of the family's other members (DFlash2, Domino, DSpark, MiMo, ...), with the values that change nothing."""


def is_block_config(raw: dict[str, Any]) -> bool:
    """Whether a configuration is that of a DFlash drafter."""
    return (raw.get("speculators_model_type") == "dflash" or "dflash_config" in raw
            or "dflash" in str(raw.get("architectures")).lower())


def block_config(source: Source, raw: dict[str, Any], tensors: dict[str, torch.Tensor], depth: int) -> BlockConfig:
    """What the drafter is made of, for a target with `depth` layers. Errors: `LoadError`."""
    foreign, nested = raw.get("speculators_model_type"), raw.get("dflash_config")
    if foreign not in (None, "dflash"):
        raise LoadError(f"{source} is a speculator of type {str(foreign)[:40]!r}; dflash can be used.")
    keys = raw | nested if isinstance(nested, dict) else raw
    inner = raw.get("transformer_layer_config") if foreign else raw
    inner = inner if isinstance(inner, dict) else {}
    refuse_variants(source, inner | keys)
    layer = layer_config(source, {name: value for name, value in inner.items() if name != "layer_types"}, tensors)
    count = layer.num_hidden_layers
    check_counts(source, keys, inner, count, depth)
    windows = layer_windows(source, inner, count)
    return BlockConfig(
        layer=layer, aux_layers=aux_layers(source, keys, bool(foreign), count, depth),
        block=block_size(source, keys, bool(foreign)), mask=mask_token(source, keys), windows=windows,
        causal=layer_causal(source, keys, bool(foreign), windows),
        from_anchor=switch(source, keys, "sample_from_anchor", False))


def refuse_variants(source: Source, keys: dict[str, Any]) -> None:
    """Errors: `LoadError` for a configuration that asks for more than DFlash has."""
    for name, neutral in NEUTRAL.items():
        if keys.get(name) not in (None, *neutral):
            raise LoadError(f"{source} has {name} {str(keys[name])[:40]!r}, which belongs to a variant of DFlash that "
                            "cannot be used. Use a plain DFlash drafter (architecture DFlashDraftModel).")


def check_counts(source: Source, keys: dict[str, Any], inner: dict[str, Any], count: int, depth: int) -> None:
    """Errors: `LoadError` where what is counted differs from the weights or from the target."""
    hidden = inner.get("hidden_size")
    for name, found, wanted in (("num_hidden_layers", inner.get("num_hidden_layers"), count),
                                ("num_target_layers", keys.get("num_target_layers"), depth),
                                ("target_hidden_size", keys.get("target_hidden_size"), hidden)):
        if found not in (None, wanted):
            raise LoadError(f"{source} has {name} {str(found)[:40]}, where {wanted} is needed. The checkpoint is "
                            "incomplete, or made for another target.")


def block_size(source: Source, keys: dict[str, Any], foreign: bool) -> int:
    """How many tokens a block has, the anchor included. Errors: `LoadError`."""
    given = keys.get("block_size", None if foreign else DEFAULT_BLOCK)
    if type(given) is not int or not 2 <= given <= MAX_BLOCK:
        raise LoadError(f"{source} has block_size {str(given)[:40]!r}; allowed: whole numbers from 2 to {MAX_BLOCK}.")
    return given


def mask_token(source: Source, keys: dict[str, Any]) -> int:
    """The token that stands for what is to be filled. Errors: `LoadError`."""
    given = keys.get("mask_token_id")
    if type(given) is not int or not 0 <= given <= MAX_SIZE:
        raise LoadError(f"{source} has mask_token_id {str(given)[:40]!r}; a token id of the target is needed.")
    return given


def switch(source: Source, keys: dict[str, Any], name: str, default: bool | None) -> bool | None:
    """A key that is true or false. Errors: `LoadError` for anything else."""
    given = default if keys.get(name) is None else keys[name]
    if given is not None and not isinstance(given, bool):
        raise LoadError(f"{source} has {name} {str(given)[:40]!r}; allowed: true or false.")
    return given


def even_layers(depth: int, count: int) -> list[int]:
    """The layers of a target with `depth` of them that feed a drafter with `count`, where its files do not say."""
    if count == 1:
        return [depth // 2]
    return [round(1 + place * (depth - 4) / (count - 1)) for place in range(count)]


def aux_layers(source: Source, keys: dict[str, Any], foreign: bool, count: int, depth: int) -> tuple[int, ...]:
    """The target layers that feed the drafter, counted after the layer. Errors: `LoadError`."""
    name = "aux_hidden_state_layer_ids" if foreign else "target_layer_ids"
    ids, shift = keys.get(name), 1 if foreign else 0
    if ids is None and not foreign:
        ids = even_layers(depth, count)
    if not (isinstance(ids, list) and 1 <= len(ids) <= MAX_IDS and all(type(id) is int for id in ids)):
        raise LoadError(f"{source} has {name} {str(ids)[:80]}; allowed: a list of 1 to {MAX_IDS} whole numbers.")
    low, high = shift, depth - 2 + 2 * shift
    if min(ids) < low or max(ids) > high:
        raise LoadError(f"{source} reads layers {str(ids)[:80]} of its target, which is more than {low} to {high}, as "
                        f"can be read of one with {depth} layers. It was made for another target.")
    return tuple(id - shift for id in ids)


def layer_windows(source: Source, keys: dict[str, Any], count: int) -> tuple[int | None, ...]:
    """How many positions each layer's tokens see, None for all. Errors: `LoadError`."""
    types, sliding = keys.get("layer_types"), keys.get("use_sliding_window")
    if types is None and not sliding:
        return (None,) * count
    if not isinstance(types, list) or len(types) != count or any(kind not in (FULL, SLIDING) for kind in types):
        raise LoadError(f"{source} has layer_types {str(types)[:80]}; {count} are needed, each {FULL} or {SLIDING}.")
    if SLIDING not in types:
        return (None,) * count
    if sliding is False:
        raise LoadError(f"{source} has layers of type {SLIDING} and says use_sliding_window false. Which of them holds "
                        "must be in config.json.")
    window = size(source, "sliding_window", keys.get("sliding_window"))
    return tuple(window if kind == SLIDING else None for kind in types)


def layer_causal(source: Source, keys: dict[str, Any], foreign: bool,
                 windows: tuple[int | None, ...]) -> tuple[bool, ...]:
    """In which layers a token of the block does not see later ones. Errors: `LoadError`."""
    sliding = tuple(window is not None for window in windows)
    if not foreign:
        causal = switch(source, keys, "is_causal", switch(source, keys, "causal", None))
        return sliding if causal is None else (causal,) * len(windows)
    free = switch(source, keys, "sliding_window_non_causal", None)
    if any(sliding) and free is None:
        raise LoadError(f"{source} has layers of type {SLIDING} and does not say sliding_window_non_causal (true or "
                        "false): engines take different defaults. Add it to config.json.")
    return (False,) * len(windows) if free else sliding
