"""Tiny DFlash drafters for the tiny targets, and the network once more, written out plainly and without caches."""

from __future__ import annotations

import functools

import numpy as np
import torch
from transformers import LlamaConfig

from tests import tiny
from tests.tiny_heads import LAYER, SPREAD, below, last_layer_output, normed, turned
from treegraft.drafters.block import Block
from treegraft.models.dflash import BlockConfig, BlockNet

MASK = 60


def random_net(layer: dict | None = None, seed: int = 5, **form) -> BlockNet:
    """A network of two layers with random weights, norms included; `layer` and `form` change its configuration."""
    keys = LAYER | {"num_hidden_layers": 2} | (layer or {})
    count = keys["num_hidden_layers"]
    form = {"aux_layers": (0, 2, 1), "block": 5, "mask": MASK, "windows": (None,) * count,
            "causal": (False,) * count} | form
    net = BlockNet(BlockConfig(layer=LlamaConfig(**keys), **form))
    generator = torch.Generator().manual_seed(seed)
    for name, weight in net.named_parameters():
        weight.data = torch.randn(weight.shape, generator=generator) * SPREAD + (1.0 if "norm" in name else 0.0)
    return net.eval().requires_grad_(False)


def drafter_of(net: BlockNet, family: str, ids: np.ndarray | None = None, **options) -> Block:
    """The network as a drafter that shares the tiny target's embeddings and, unless another is given, its head."""
    target = tiny.target(family)
    options = {"head": target.get_output_embeddings()} | options
    return Block(net=net, embeddings=target.get_input_embeddings().weight.detach(),
                 ids=np.arange(tiny.VOCAB) if ids is None else ids, **options)


def states_of(family: str, text: list[int], layers: tuple[int, ...]) -> list[torch.Tensor]:
    """The target's states [n, hidden] of `layers` after `text`, by transformers."""
    model, ids = tiny.target(family), torch.tensor([text])
    seen = [*model(ids, output_hidden_states=True).hidden_states[1:-1], last_layer_output(model, ids)]
    return [seen[layer][0] for layer in layers]


@torch.inference_mode()
def readings(net: BlockNet, embeddings: torch.Tensor, aux: list[torch.Tensor], root: int, size: int) -> torch.Tensor:
    """What an output head reads at each place of a block [size, hidden], by the target's states [n, hidden] a layer at
    all of the text before `root`."""
    weights, config = net.state_dict(), net.config
    context = normed(torch.cat(aux, -1) @ weights["fc.weight"].T, weights["hidden_norm.weight"])
    hidden = embeddings[[root, *[config.mask] * (size - 1)]]
    for index in range(config.layer.num_hidden_layers):
        layer = below(weights, f"layers.{index}.")
        x = normed(hidden, layer["input_layernorm.weight"])
        hidden = hidden + attention(below(layer, "self_attn."), context, x, config.windows[index], config.causal[index])
        x = normed(hidden, layer["post_attention_layernorm.weight"])
        gate = torch.nn.functional.silu(x @ layer["mlp.gate_proj.weight"].T)
        hidden = hidden + (gate * (x @ layer["mlp.up_proj.weight"].T)) @ layer["mlp.down_proj.weight"].T
    return normed(hidden, weights["norm.weight"])


def attention(weights: dict[str, torch.Tensor], context: torch.Tensor, x: torch.Tensor, window: int | None,
              causal: bool) -> torch.Tensor:
    """The block `x` attends to itself and to the text, whose states stand in for hidden ones."""
    dim, before = LAYER["head_dim"], len(context)
    q, k, v = ((torch.cat((context, x)) @ weights[f"{name}_proj.weight"].T).unflatten(-1, (-1, dim)) for name in "qkv")
    q = turned(normed(q, weights["q_norm.weight"]))[before:]
    k = turned(normed(k, weights["k_norm.weight"]))
    mixed = torch.zeros_like(q)
    ahead = torch.arange(len(k)) - before - torch.arange(len(x))[:, None]
    hidden = (ahead > 0) & causal | (ahead.abs() >= (window or len(k)))
    for head in range(q.shape[1]):
        shared = head // (q.shape[1] // k.shape[1])
        scores = q[:, head] @ k[:, shared].T / dim**0.5
        mixed[:, head] = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v[:, shared]
    return mixed.flatten(1) @ weights["o_proj.weight"].T


@functools.cache
@torch.inference_mode()
def taught_head(family: str, block: int, *prompts: tuple[int, ...]) -> torch.nn.Linear:
    """An output head for `random_net(block=block)` that was fitted to the target's answers to `prompts`: right there
    now and then, which no drafter learns of a random target in general."""
    net, target = random_net(block=block), tiny.target(family)
    embeddings = target.get_input_embeddings().weight
    inputs, wanted = [], []
    for prompt in prompts:
        text = target.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                               do_sample=False, max_new_tokens=40, eos_token_id=None, pad_token_id=0)[0].tolist()
        states = states_of(family, text, net.config.aux_layers)
        for root in range(len(prompt), len(text) - block):
            inputs.append(readings(net, embeddings, [one[:root] for one in states], text[root], block)[1:])
            wanted.append(torch.nn.functional.one_hot(torch.tensor(text[root + 1: root + block]), tiny.VOCAB).float())
    x, y = torch.cat(inputs), torch.cat(wanted)
    head = torch.nn.Linear(32, tiny.VOCAB, bias=False)
    head.weight = torch.nn.Parameter(20 * torch.linalg.solve(x.T @ x + 0.1 * torch.eye(32), x.T @ y).T,
                                     requires_grad=False)
    return head
