"""What the public layouts of EAGLE-3 heads say: configuration, layer ids, draft vocabulary.

- EAGLE (SafeAILab/EAGLE, `eagle/model/cnets.py`): the keys of a Llama configuration plus `draft_vocab_size`; tensors
  `fc`, `midlayer.*`, `norm`, `lm_head`, `d2t`, `t2d`. Which target layers feed it is not stored.
- SpecForge (sgl-project/SpecForge, `specforge/modeling/draft/llama3_eagle.py`): the same, plus `eagle_config` with
  `eagle_aux_hidden_state_layer_ids`, and `target_hidden_size` where the head is narrower than its target.
- speculators (vllm-project/speculators, `src/speculators/models/eagle3`): `speculators_model_type`, the layers'
  configuration in `transformer_layer_config`; tensors `layers.0.*`, `layers.1.*`, ... for `midlayer.*`.

Layer ids count from 0. Ours are "after the layer": id n is what layer n puts out.
- In `eagle_config` they mean the same (SGLang's `set_eagle3_layers_to_capture` adds 1, as it captures before a layer).
- At the top level, where speculators and vLLM keep them, they are "before the layer": n is what layer n reads, hence
  our n - 1; the number of layers stands for what the last one puts out.
- Where none are stored, EAGLE's three count: what layers 2, L // 2 and L - 3 of L read (its `modeling_llama_kv.py`).

`d2t` holds offsets: row d of the output head scores the target's token d + d2t[d]. `t2d` marks the same tokens among
the target's. The switches of EAGLE-3.1 (`fc_norm`, `norm_output`) and of gpt-oss heads (`norm_before_fc`) are at the
top level or in `eagle_config`; a norm over queries and keys is told by its tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import CONFIG_MAPPING, AutoConfig, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from treegraft.models.eagle3 import HeadConfig
from treegraft.models.errors import LoadError
from treegraft.models.weights import Source, explained

MAX_LAYERS = 16
MAX_SIZE = 1 << 24
"""Bounds on what files of strangers may ask for."""

SIZES = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
         "max_position_embeddings", "vocab_size")
LAYER_KEYS = (*SIZES, "hidden_act", "rms_norm_eps", "bos_token_id", "eos_token_id")
"""What is taken from a layer's configuration as it stands; rotary positions and biases come on top."""

SWITCHES = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")


def default_aux_layers(depth: int) -> tuple[int, ...]:
    """The layers that EAGLE reads of a target with `depth` layers, counted after the layer."""
    return 1, depth // 2 - 1, depth - 4


def head_config(source: Source, raw: dict[str, Any], tensors: dict[str, torch.Tensor], depth: int) -> HeadConfig:
    """What the head is made of, for a target with `depth` layers. Errors: `LoadError`."""
    foreign = raw.get("speculators_model_type")
    if foreign not in (None, "eagle3"):
        raise LoadError(f"{source} is a speculator of type {str(foreign)[:40]!r}; eagle3 can be used.")
    if foreign and not isinstance(raw.get("norm_before_residual"), bool):
        raise LoadError(f"{source} does not say norm_before_residual (true or false), without which a head in "
                        "speculators' layout cannot be read: engines take different defaults. Add it to config.json.")
    nested = raw.get("eagle_config")
    switches = raw | nested if isinstance(nested, dict) else raw
    layer = layer_config(source, raw.get("transformer_layer_config") if foreign else raw, tensors)
    return HeadConfig(
        layer=layer, draft_vocab=size(source, "draft_vocab_size", raw.get("draft_vocab_size") or layer.vocab_size),
        aux_layers=aux_layers(source, raw, depth),
        target_hidden=size(source, "target_hidden_size", raw.get("target_hidden_size") or layer.hidden_size),
        qk_norm=any(name.endswith("q_norm.weight") for name in tensors),
        **{name: switches.get(name) is True for name in SWITCHES})


def layer_config(source: Source, keys: Any, tensors: dict[str, torch.Tensor]) -> LlamaConfig:
    """The configuration of the head's layers, as a Llama's. Keys left out have the default of the model type named.

    Errors: `LoadError` for sizes out of bounds, and for layers of another kind.
    """
    if not isinstance(keys, dict):
        raise LoadError(f"{source} has no configuration of its layers.")
    for name in SIZES:
        if keys.get(name) is not None:
            size(source, name, keys[name])
    kind = keys.get("model_type")
    with explained(source):
        full = AutoConfig.for_model(kind if kind in CONFIG_MAPPING else "llama",
                                    **{name: value for name, value in keys.items() if name != "model_type"})
        layer = LlamaConfig(**{name: getattr(full, name, None) for name in LAYER_KEYS},
                            rope_parameters=full.rope_parameters, num_hidden_layers=count_layers(source, tensors),
                            attention_bias=any(name.endswith("q_proj.bias") for name in tensors),
                            mlp_bias=any(name.endswith("gate_proj.bias") for name in tensors))
    rope = layer.rope_parameters.get("rope_type")
    if rope != "default" and rope not in ROPE_INIT_FUNCTIONS:
        raise LoadError(f"{source} has rotary positions of type {rope!r}; allowed: default, "
                        f"{', '.join(ROPE_INIT_FUNCTIONS)}.")
    types = keys.get("layer_types") or []
    if not isinstance(types, list) or any(kind != "full_attention" for kind in types):
        raise LoadError(f"{source} has layers of types {str(types)[:80]}; those of a head must be full_attention.")
    if layer.num_attention_heads % layer.num_key_value_heads:
        raise LoadError(f"{source} has {layer.num_attention_heads} attention heads, which its "
                        f"{layer.num_key_value_heads} key-value heads do not divide.")
    return layer


def size(source: Source, name: str, value: Any) -> int:
    """A size that files ask for, once it is sure that it is one. Errors: `LoadError`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIZE:
        raise LoadError(f"{source} has {name} {str(value)[:40]!r}; allowed: whole numbers from 1 to {MAX_SIZE}.")
    return value


def count_layers(source: Source, tensors: dict[str, torch.Tensor]) -> int:
    """How many layers the weights have. Errors: `LoadError`."""
    count = len({name.split(".")[1] for name in tensors if name.startswith("layers.")})
    if not 1 <= count <= MAX_LAYERS:
        raise LoadError(f"The weights of {source} have {count} layers; 1 to {MAX_LAYERS} are allowed, named layers.0, "
                        "layers.1, ... (EAGLE-3: or midlayer).")
    return count


def aux_layers(source: Source, raw: dict[str, Any], depth: int) -> tuple[int, ...]:
    """The target layers that feed the head, counted after the layer. Errors: `LoadError`."""
    nested, key = raw.get("eagle_config"), "eagle_aux_hidden_state_layer_ids"
    after = nested.get(key) if isinstance(nested, dict) else None
    before = raw.get(key)
    if not after and not before:
        ids, given = default_aux_layers(depth), f"no layer ids, so EAGLE's {default_aux_layers(depth)}"
    else:
        ids, given = after or before, f"layer ids {str(after or before)[:80]}"
        if not isinstance(ids, list) or not all(type(id) is int for id in ids):
            raise LoadError(f"{source} has {given}; allowed: a list of whole numbers.")
        ids = tuple(ids) if after else tuple(id - 1 for id in ids)
    if not all(low < high for low, high in zip((-1, *ids), (*ids, depth), strict=True)):
        raise LoadError(f"{source} has {given}, which do not ascend within the target's {depth} layers. It was made "
                        "for another target.")
    return ids


def draft_tokens(source: Source, draft: int, total: int, offsets: torch.Tensor | None,
                 members: torch.Tensor | None) -> np.ndarray:
    """The target's ids of the `draft` tokens that a head scores, of `total`. Errors: `LoadError` for a wrong table.

    A table that is missing or was never filled would make the head name wrong tokens, silently: then nearly nothing is
    accepted.
    """
    if offsets is None and draft == total:
        return np.arange(total)
    if offsets is None:
        raise LoadError(f"{source} scores {draft} of {total} tokens but has no d2t table that says which. Get the "
                        "whole checkpoint.")
    if tuple(offsets.shape) != (draft,) or offsets.is_floating_point() or offsets.is_complex():
        raise LoadError(f"{source} has a d2t table of {offsets.dtype} {list(offsets.shape)}; {draft} whole numbers are "
                        "needed.")
    ids = np.arange(draft) + offsets.to(torch.int64).numpy()
    wrong = np.flatnonzero((ids < 0) | (ids >= total))
    if len(wrong):
        raise LoadError(f"The d2t table of {source} points out of the target's {total} tokens in {len(wrong)} rows, "
                        f"first in row {wrong[0]} (token {ids[wrong[0]]}). It belongs to another target.")
    if len(np.unique(ids)) < draft:
        raise LoadError(f"The d2t table of {source} names {draft - len(np.unique(ids))} tokens twice. Is it one of "
                        "offsets (target id - draft id)?")
    marked = None if members is None else members.flatten().nonzero().flatten().numpy()
    agree = marked is not None and np.array_equal(marked, np.sort(ids))
    if draft < total and not agree and not offsets.any():
        raise LoadError(f"The d2t table of {source} is all zero, so it was never filled and says nothing about the "
                        f"{draft} tokens that the head scores. Get the finished checkpoint.")
    if marked is not None and not agree:
        raise LoadError(f"The tables of {source} disagree: d2t names {draft} tokens, t2d marks {len(marked)}"
                        f"{'' if len(marked) != draft else ' others'}. One of them belongs to another head.")
    return ids


def written_config(config: HeadConfig, draft_vocab: int, target_vocab: int, dtype: torch.dtype) -> dict[str, Any]:
    """config.json of a head, with rotary positions in the keys that all engines know."""
    layer = config.layer
    rope = dict(layer.rope_parameters)
    theta, default = rope.pop("rope_theta"), rope["rope_type"] == "default"
    return {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama",
        **{name: getattr(layer, name, None) for name in LAYER_KEYS}, "vocab_size": target_vocab,
        "num_hidden_layers": layer.num_hidden_layers, "rope_theta": theta, "rope_scaling": None if default else rope,
        "attention_bias": bool(getattr(layer, "attention_bias", False)),
        "mlp_bias": bool(getattr(layer, "mlp_bias", False)), "tie_word_embeddings": False,
        "dtype": str(dtype).removeprefix("torch."), "draft_vocab_size": draft_vocab,
        "target_hidden_size": config.target_hidden, **{name: getattr(config, name) for name in SWITCHES},
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(config.aux_layers), "use_aux_hidden_state": True},
    }
