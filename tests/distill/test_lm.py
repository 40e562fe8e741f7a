"""A shallow copy starts as the target's own layers, and learns its distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests import tiny
from tests.distill.examples import random_examples
from treegraft.distill.data import collate
from treegraft.distill.errors import DistillError
from treegraft.distill.lm import LMStudent, shallow_copy, spread_layers
from treegraft.distill.states import TargetStates


def student(family: str = "llama", layers: tuple[int, ...] = (0, 2)) -> tuple[LMStudent, list]:
    examples = random_examples(4)
    states = TargetStates(tiny.target(family), examples, (), None)
    return LMStudent(shallow_copy(tiny.target(family), layers), states, np.arange(9)), examples


@pytest.mark.parametrize("family", tiny.CONFIGS)
def test_a_copy_of_all_layers_is_the_target(family):
    tokens = torch.tensor([[5, 9, 30, 41, 17] * 5])
    copy = shallow_copy(tiny.target(family), (0, 1, 2)).eval()
    assert torch.allclose(copy(tokens).logits, tiny.target(family)(tokens).logits, atol=1e-4)


def test_chosen_layers_are_copied_in_their_order():
    copy = shallow_copy(tiny.target("llama"), (2, 0))
    ours, theirs = copy.base_model.layers, tiny.target("llama").base_model.layers
    assert torch.equal(ours[0].mlp.up_proj.weight, theirs[2].mlp.up_proj.weight)
    assert torch.equal(ours[1].mlp.up_proj.weight, theirs[0].mlp.up_proj.weight)


def test_a_sliding_layer_stays_one():
    assert shallow_copy(tiny.target("gemma3"), (1, 2)).config.layer_types == ["full_attention", "sliding_attention"]


def test_embeddings_and_head_are_frozen():
    taught, examples = student()
    taught.loss(collate(examples, np.arange(4), torch.device("cpu"))).backward()
    trained = {name for name, weight in taught.module.named_parameters() if weight.grad is not None}
    names = {name for name, _ in taught.module.named_parameters()}
    assert names - trained == {"model.embed_tokens.weight", "lm_head.weight"}


def test_the_loss_is_the_mean_over_answer_tokens():
    taught, examples = student()
    batch = collate(examples, np.arange(4), torch.device("cpu"))
    losses = []
    for row, example in enumerate(examples):
        places = slice(example.prompt - 1, len(example) - 1)
        target = tiny.target("llama")(batch.tokens[row:row + 1]).logits[0, places].softmax(-1)
        losses.append(-(target * taught.module(batch.tokens[row:row + 1]).logits[0, places].log_softmax(-1)).sum(-1))
    assert taught.loss(batch).item() == pytest.approx(torch.cat(losses).mean().item(), rel=1e-2)


def test_layers_that_the_target_lacks_are_refused():
    with pytest.raises(DistillError, match="0 to 2"):
        shallow_copy(tiny.target("llama"), (0, 3))


def test_layers_are_spread_evenly():
    assert spread_layers(30, 6) == [0, 6, 12, 17, 23, 29]
    assert spread_layers(3, 1) == [0]
