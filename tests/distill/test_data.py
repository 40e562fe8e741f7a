"""Examples come in the same order for a seed, each once an epoch, in batches of bounded size."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.distill.examples import random_examples
from treegraft.distill.data import Example, batches, collate, held_out

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=80).map(np.array)


@given(LENGTHS, st.integers(1, 200), st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_has_every_example_once_in_bounded_batches(lengths, batch_tokens, seed, epoch):
    made = batches(lengths, np.arange(len(lengths)), batch_tokens, seed, epoch)
    assert sorted(np.concatenate(made).tolist()) == list(range(len(lengths)))
    for batch in made:
        assert len(batch) == 1 or lengths[batch].max() * len(batch) <= batch_tokens


def test_the_order_depends_on_seed_and_epoch_alone():
    lengths = np.arange(1, 50)
    first, same, other = (batches(lengths, np.arange(49), 64, 0, epoch) for epoch in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))
    assert [batch.tolist() for batch in first] != [batch.tolist() for batch in other]


def test_batches_are_padded_little():
    lengths = np.random.default_rng(0).integers(10, 300, 2000)
    made = batches(lengths, np.arange(2000), 4096, 0, 0)
    padded = sum(lengths[batch].max() * len(batch) for batch in made)
    assert lengths.sum() / padded > 0.9


def test_held_out_examples_are_not_trained_on():
    train, check = held_out(100, 10, seed=3)
    assert len(check) == 10
    assert sorted([*train, *check]) == list(range(100))


def test_only_answer_tokens_are_predicted():
    examples = [Example(np.arange(5, 12), 3), Example(np.arange(20, 24), 2)]
    batch = collate(examples, np.array([0, 1]), torch.device("cpu"))
    assert batch.tokens.tolist() == [[5, 6, 7, 8, 9, 10, 11], [20, 21, 22, 23, 0, 0, 0]]
    told = [batch.tokens[row, torch.nonzero(mask).flatten() + 1].tolist() for row, mask in enumerate(batch.predicts(0))]
    assert told == [[8, 9, 10, 11], [22, 23]]


def test_predictions_further_on():
    batch = collate(random_examples(3), np.arange(3), torch.device("cpu"))
    near, far = batch.predicts(0), batch.predicts(2)
    assert torch.equal(far[:, :-2], near[:, 2:])
    assert not far[:, -2:].any()
