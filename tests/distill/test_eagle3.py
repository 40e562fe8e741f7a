"""The unrolled head in training does what it does when it drafts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tests import tiny
from tests.distill.examples import random_examples
from treegraft.distill.data import collate
from treegraft.distill.eagle3 import (
    STEP_WEIGHT,
    Eagle3Student,
    UnrolledAttention,
    config_for,
    start_from_target,
)
from treegraft.distill.errors import DistillError
from treegraft.distill.states import TargetStates
from treegraft.models.eagle3 import Eagle3Head

CPU = torch.device("cpu")
LAYERS = (0, 1, 2)
STEPS = 4


def random_head(vocab: int = tiny.VOCAB) -> Eagle3Head:
    torch.manual_seed(5)
    head = Eagle3Head(config_for(tiny.target("llama"), vocab, LAYERS))
    with torch.no_grad():
        for weight in head.parameters():
            weight.copy_(torch.randn_like(weight) * (0.3 if weight.ndim > 1 else 0.1) + (weight.ndim == 1))
    return head


def student(vocab: np.ndarray | None = None, count: int = 5) -> tuple[Eagle3Student, list]:
    vocab = np.arange(tiny.VOCAB) if vocab is None else vocab
    examples = random_examples(count)
    states = TargetStates(tiny.target("llama"), examples, LAYERS, None)
    return Eagle3Student(random_head(len(vocab)), tiny.target("llama"), vocab, states, STEPS), examples


def drafted(head: Eagle3Head, tokens: torch.Tensor, aux: torch.Tensor, column: int) -> list[torch.Tensor]:
    """What `lm_head` reads at each of `STEPS` draft steps from `column`, drafting the text itself, all over again at
    every step: an independent, plain way."""
    embed = tiny.target("llama").get_input_embeddings()
    known = head.fuse(aux[None, :column + 1])
    own, read = [], []
    while len(read) < STEPS:
        state = torch.cat((known, *own), 1)
        length = state.shape[1]
        def attend(layer, queries, keys, values):
            groups = queries.shape[1] // keys.shape[1]
            return scaled_dot_product_attention(queries, keys.repeat_interleave(groups, 1),
                                                values.repeat_interleave(groups, 1), is_causal=True)
        fed, normed = head(embed(tokens[None, 1:length + 1]), state, torch.arange(length)[None], attend)
        own = [*own, fed[:, -1:]]
        read.append(normed[0, -1])
    return read


@torch.no_grad()
def test_unrolling_equals_drafting():
    taught, examples = student()
    batch = collate(examples, np.arange(5), CPU)
    aux, _ = taught._states(batch)
    unrolled = [normed for normed, _ in taught._unroll(batch)]
    seen = [0] * STEPS
    for row, example in enumerate(examples):
        for column in range(len(example)):
            steps = [step for step in range(STEPS)
                     if example.prompt - 1 <= column + 1 + step < len(example) - 1]
            if not steps:
                continue
            padded = torch.nn.functional.pad(batch.tokens[row], (0, STEPS))
            plain = drafted(taught.module, padded, aux[row], column)
            for step in steps:
                assert torch.allclose(unrolled[step][seen[step]], plain[step], atol=1e-4)
                seen[step] += 1
    assert seen == [len(rows) for rows in unrolled]


@torch.no_grad()
def test_each_step_learns_from_the_targets_distribution_over_the_draft_vocabulary():
    vocab = np.arange(3, 50, 2)
    taught, examples = student(vocab)
    batch = collate(examples, np.arange(5), CPU)
    logits = tiny.target("llama")(batch.tokens).logits
    for step, (_, teacher) in enumerate(taught._unroll(batch)):
        wanted = [logits[row, place, vocab].softmax(-1)
                  for row, example in enumerate(examples) for place in range(example.prompt - 1, len(example) - 1)
                  if place >= 1 + step and int(example.tokens[place + 1]) in vocab]
        assert torch.allclose(teacher(slice(None)), torch.stack(wanted), atol=2e-2)


def test_the_loss_weighs_steps_and_averages_tokens():
    taught, examples = student()
    batch = collate(examples, np.arange(5), CPU)
    means = [-(teacher(slice(None)) * (normed @ taught.module.lm_head.weight.T).log_softmax(-1)).sum(-1).mean()
             for normed, teacher in taught._unroll(batch)]
    weights = [STEP_WEIGHT**step for step in range(STEPS)]
    wanted = sum(w * m for w, m in zip(weights, means, strict=True)) / sum(weights)
    assert taught.loss(batch).item() == pytest.approx(wanted.item(), rel=1e-4)


def test_gradients_flow_through_all_steps():
    taught, examples = student()
    taught.loss(collate(examples, np.arange(5), CPU)).backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in taught.module.parameters())


def test_later_steps_cannot_look_ahead():
    attend = UnrolledAttention(first=2)
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(1, heads, 6, 8) for heads in (4, 2, 2))
    attend(0, queries, keys, values)
    step = queries[:, :, 2:], keys[:, :, 2:], values[:, :, 2:]
    before = attend._attend(step[0].unflatten(1, (-1, 2)), [(keys, values), step[1:]])
    changed = [part.clone() for part in (keys, values)]
    for part in changed:
        part[:, :, 4:] = 9.0
    after = attend._attend(step[0].unflatten(1, (-1, 2)), [tuple(changed), step[1:]])
    assert torch.equal(before[..., :2, :], after[..., :2, :])
    assert not torch.equal(before[..., 2:, :], after[..., 2:, :])


@torch.no_grad()
def test_the_start_repeats_the_targets_last_layer():
    """With the state before the target's last layer as its high state, the head begins as the target's own answer."""
    target = tiny.target("llama")
    head = Eagle3Head(config_for(target, tiny.VOCAB, LAYERS))
    start_from_target(head, target, np.arange(tiny.VOCAB))
    tokens = torch.tensor([[5, 9, 30, 41, 17]])
    output = target.base_model(tokens, output_hidden_states=True)
    before_last = output.hidden_states[2]
    aux = torch.cat((before_last, before_last, before_last), -1)
    _, normed = head(target.get_input_embeddings()(tokens), head.fuse(aux), torch.arange(5)[None],
                     UnrolledAttention(0))
    assert torch.allclose(head.lm_head(normed), target(tokens).logits, atol=1e-4)


@pytest.mark.parametrize("layers", [(1, 0, 2), (0, 1, 3), (-1, 1, 2)])
def test_layers_that_the_target_lacks_are_refused(layers):
    with pytest.raises(DistillError, match="from 0 to 2"):
        config_for(tiny.target("llama"), tiny.VOCAB, layers)
