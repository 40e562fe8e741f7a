"""Tiny EAGLE-3 heads for the tiny targets, and the network once more, written out plainly and without caches."""

from __future__ import annotations

import functools

import numpy as np
import torch
from transformers import LlamaConfig

from tests import tiny
from treegraft.drafters.eagle3 import Eagle3
from treegraft.models.eagle3 import Eagle3Head, HeadConfig

LAYER = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "num_hidden_layers": 1, "vocab_size": tiny.VOCAB,
         "rope_theta": 5000.0}
FORM = {"draft_vocab": tiny.VOCAB, "aux_layers": (0, 1, 2), "target_hidden": 32}
SWITCHES = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output", "qk_norm")
SPREAD = 0.3


def random_head(layer: dict | None = None, seed: int = 5, **form) -> Eagle3Head:
    """A head with random weights, norms included; `layer` and `form` change `LAYER` and `FORM`."""
    head = Eagle3Head(HeadConfig(layer=LlamaConfig(**(LAYER | (layer or {}))), **(FORM | form)))
    generator = torch.Generator().manual_seed(seed)
    for name, weight in head.named_parameters():
        weight.data = torch.randn(weight.shape, generator=generator) * SPREAD + (1.0 if name.endswith("norm.weight")
                                                                                 or "fc_norm" in name else 0.0)
    return head.eval().requires_grad_(False)


def drafter_of(head: Eagle3Head, family: str, ids: np.ndarray | None = None, **options) -> Eagle3:
    """The head as a drafter that shares the tiny target's embeddings."""
    embeddings = options.pop("embeddings", tiny.target(family).get_input_embeddings().weight.detach())
    return Eagle3(head=head, embeddings=embeddings, ids=np.arange(tiny.VOCAB) if ids is None else ids, **options)


@functools.cache
@torch.inference_mode()
def taught_head(family: str, *prompts: tuple[int, ...]) -> Eagle3Head:
    """A random head whose output layer was fitted to the target's answers to `prompts`: right there about every other
    time, which no head learns of a random target in general."""
    head, target = random_head(), tiny.target(family)
    embeddings = target.get_input_embeddings().weight
    readings, wanted = [], []
    for prompt in prompts:
        text = target.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                               do_sample=False, max_new_tokens=40, eos_token_id=None, pad_token_id=0)
        seen = target(text, output_hidden_states=True)
        aux = torch.cat((*seen.hidden_states[1:3], last_layer_output(target, text)), -1)
        _, reading = whole(head, embeddings[text[0, 1:]], head.fuse(aux)[0, :-1])
        readings.append(reading[len(prompt) - 1:])
        wanted.append(torch.nn.functional.one_hot(text[0, len(prompt) + 1:], tiny.VOCAB).float())
    x, y = torch.cat([reading[:-1] for reading in readings]), torch.cat(wanted)
    head.lm_head.weight.data = 20 * torch.linalg.solve(x.T @ x + 0.1 * torch.eye(32), x.T @ y).T
    return head


def last_layer_output(target: torch.nn.Module, text: torch.Tensor) -> torch.Tensor:
    """What the last decoder layer puts out, before the final norm."""
    kept = []
    hook = target.model.layers[-1].register_forward_hook(lambda module, given, output: kept.append(output))
    target(text)
    hook.remove()
    return kept[0]


# --- the network, plainly -------------------------------------------------------------------------------------------


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + LAYER["rms_norm_eps"]).sqrt() * weight


def turned(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions 0, 1, ... on [n, heads, dim]."""
    half = x.shape[-1] // 2
    angle = torch.arange(len(x))[:, None] / LAYER["rope_theta"] ** (torch.arange(half) / half)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def attention(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    dim = LAYER["head_dim"]
    q, k, v = ((x @ weights[f"{name}_proj.weight"].T).unflatten(-1, (-1, dim)) for name in "qkv")
    if "q_norm.weight" in weights:
        q, k = normed(q, weights["q_norm.weight"]), normed(k, weights["k_norm.weight"])
    q, k = turned(q), turned(k)
    mixed = torch.zeros_like(q)
    for head in range(q.shape[1]):
        shared = head // (q.shape[1] // k.shape[1])
        scores = (q[:, head] @ k[:, shared].T) / dim**0.5
        ahead = torch.ones_like(scores).triu(1).bool()
        mixed[:, head] = scores.masked_fill(ahead, -torch.inf).softmax(-1) @ v[:, shared]
    return mixed.flatten(1) @ weights["o_proj.weight"].T


def below(weights: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}


def whole(head: Eagle3Head, embeddings: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The states that the head puts out, and what its output layer reads, for text [n, hidden] and its states."""
    weights, config, hidden = head.state_dict(), head.config, states
    for index in range(config.layer.num_hidden_layers):
        layer = below(weights, f"layers.{index}.")
        x = normed(embeddings if index == 0 else hidden, layer["input_layernorm.weight"])
        if index == 0:
            inner = normed(states, layer["hidden_norm.weight"])
            x, hidden = torch.cat((x, inner), -1), inner if config.norm_before_residual else states
        hidden = hidden + attention(below(layer, "self_attn."), x)
        x = normed(hidden, layer["post_attention_layernorm.weight"])
        gate = torch.nn.functional.silu(x @ layer["mlp.gate_proj.weight"].T)
        hidden = hidden + (gate * (x @ layer["mlp.up_proj.weight"].T)) @ layer["mlp.down_proj.weight"].T
    reading = normed(hidden, weights["norm.weight"])
    return (reading if config.norm_output else hidden), reading


def fused(head: Eagle3Head, aux: list[torch.Tensor]) -> torch.Tensor:
    """The head's states for the target's, [n, hidden] a layer."""
    weights, config = head.state_dict(), head.config
    if config.norm_before_fc:
        aux = list(normed(torch.cat(aux, -1), weights["input_norm.weight"]).chunk(len(aux), -1))
    if config.fc_norm:
        aux = [normed(part, weights[f"fc_norm.{place}.weight"]) for place, part in enumerate(aux)]
    return torch.cat(aux, -1) @ weights["fc.weight"].T


def drafted_logprobs(head: Eagle3Head, embeddings: torch.Tensor, aux: list[torch.Tensor], text: list[int],
                     chain: list[int]) -> torch.Tensor:
    """Log-probs of what follows `text` + `chain`, with the target's states `aux` at all of `text` but its last token.

    Everything is computed anew for every token of the chain, as section 3.1 of the paper says.
    """
    states = fused(head, aux)
    for length in range(len(chain) + 1):
        tokens = torch.tensor([*text, *chain[:length]])[1:]
        out, reading = whole(head, embeddings[tokens], states)
        states = torch.cat((states, out[-1:]))
    return (reading[-1] @ head.lm_head.weight.T).log_softmax(-1)
