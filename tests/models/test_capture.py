"""The hidden states that are handed out are those of the layers asked for, at the positions asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from tests import tiny
from treegraft.models.cache import CachedModel
from treegraft.models.capture import LayerStates, decoder_layers, side_by_side
from treegraft.models.errors import LoadError
from treegraft.models.target import Target
from treegraft.tree import DraftTree

TEXT = [5, 9, 33, 4, 5, 9, 21, 60, 7, 8]


@pytest.fixture(scope="module", params=tiny.CONFIGS)
def family(request) -> str:
    return request.param


def all_states(model: torch.nn.Module, text: list[int]) -> list[torch.Tensor]:
    """[n, hidden] after every layer but the last, by transformers."""
    with torch.inference_mode():
        return [state[0] for state in model(torch.tensor([text]), output_hidden_states=True).hidden_states[1:-1]]


def hooks(model: torch.nn.Module) -> int:
    """How many forward hooks the layers have; some stay from `output_hidden_states`."""
    return sum(len(layer._forward_hooks) for layer in decoder_layers(model))


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-4, rtol=1e-4)


def test_states_are_what_the_layers_put_out(family):
    model = tiny.target(family)
    with LayerStates(model, [0, 1, 2]) as seen, torch.inference_mode():
        last = model(torch.tensor([TEXT]), output_hidden_states=True).hidden_states[-1]
        low, middle, high = (seen.latest[layer] for layer in range(3))
        assert torch.equal(model.model.norm(high), last)
    theirs = all_states(model, TEXT)
    assert close(low[0], theirs[0])
    assert close(middle[0], theirs[1])
    assert not close(low, middle)


def test_nothing_is_left_behind(family):
    model = tiny.target(family)
    before = hooks(model)
    with LayerStates(model, [1]) as seen:
        model(torch.tensor([TEXT]))
        assert list(seen.latest) == [1]
        assert hooks(model) == before + 1
    model(torch.tensor([TEXT]))
    assert seen.latest == {}
    assert hooks(model) == before


def test_layers_that_put_out_more_than_a_state():
    """As those of older models do; and a model that keeps its layers elsewhere."""
    model = GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=16, n_head=2, vocab_size=61)).eval()
    assert decoder_layers(model) is model.transformer.h
    model.transformer.h[0].register_forward_hook(lambda module, given, output: (output, None))
    model.transformer.h[1].register_forward_pre_hook(lambda module, given: (given[0][0], *given[1:]))
    with LayerStates(model, [0]) as seen, torch.inference_mode():
        wanted = model(torch.tensor([TEXT]), output_hidden_states=True).hidden_states[1]
        assert seen.latest[0].shape == (1, len(TEXT), 16)
        assert torch.equal(seen.latest[0], wanted[0] if isinstance(wanted, tuple) else wanted)


def test_a_model_without_a_list_of_layers_is_refused():
    model = GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=16, n_head=2, vocab_size=61))
    model.config.num_hidden_layers = 5
    with pytest.raises(LoadError, match="keep its 5 layers in a list"):
        LayerStates(model, [0])


def test_side_by_side_follows_the_order_asked_for():
    states = {layer: torch.full((2, 3), float(layer)) for layer in range(4)}
    assert side_by_side(states, (3, 0, 0))[1].tolist() == [3, 3, 3, 0, 0, 0, 0, 0, 0]


def test_the_cache_hands_out_the_states_of_the_latest_forward(family):
    cached = CachedModel(tiny.target(family), 64)
    theirs = all_states(cached.model, TEXT)[1]
    before = hooks(cached.model)
    cached.watch([1])
    for _ in cached.append(np.array(TEXT[:7])):
        pass
    for _ in cached.append(np.array(TEXT[7:])):
        pass
    assert close(cached.states[1], theirs[7:])
    cached.watch(())
    assert cached.states == {}
    assert hooks(cached.model) == before


@pytest.mark.parametrize("chunk", [3, 512])
def test_states_of_the_prompt_and_of_what_was_accepted(family, chunk, monkeypatch):
    """Of a tree, only the root's and the accepted nodes', as if the target had read them as plain text."""
    monkeypatch.setattr("treegraft.models.cache.PREFILL_CHUNK", chunk)
    target = Target(CachedModel(tiny.target(family), 64))
    prefilled = target.prefill(TEXT, 0, [0, 1])
    theirs = all_states(target.cached.model, TEXT)
    assert all(close(prefilled.states[layer], theirs[layer]) for layer in (0, 1))
    tree = DraftTree(prefilled.root, len(TEXT) + 1, 20)
    tree.append([0, 0, 1, 2, 3, 3], [11, 12, 13, 14, 15, 16], [0] * 6, 0)
    order = np.array([0, 1, 2, 3, 6])
    target.verify(tree, order)
    states = target.commit(tree, order, np.array([1, 3, 6]))
    theirs = all_states(target.cached.model, [*TEXT, prefilled.root, 11, 13, 16])
    assert states.keys() == {0, 1}
    assert all(close(states[layer], theirs[layer][len(TEXT):]) for layer in (0, 1))


def test_nobody_asked(family):
    target = Target(CachedModel(tiny.target(family), 64))
    target.prefill(TEXT, 0, [1])
    prefilled = target.prefill(TEXT, 0)
    assert prefilled.states == {}
    tree = DraftTree(prefilled.root, len(TEXT) + 1, 20)
    target.verify(tree, np.array([0]))
    assert target.commit(tree, np.array([0]), np.zeros(0, np.int64)) == {}
