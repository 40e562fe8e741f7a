"""Finding the best tokens block by block gives what torch gives."""

from __future__ import annotations

import pytest
import torch

from treegraft.models.topk import favourites, top_columns, top_tokens

SHAPES = [(1, 7), (3, 128), (5, 1000), (4, 49152), (9, 12800), (64, 6400)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_favourite_is_the_first_of_the_largest(shape, dtype):
    torch.manual_seed(3)
    logits = torch.randn(shape).mul(3).to(dtype)  # bf16 rows have many equal largest values
    first = [int((row == row.max()).nonzero()[0]) for row in logits]
    assert favourites(logits).tolist() == first


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [1, 10, 64])
def test_top_columns_equal_topk(shape, k):
    torch.manual_seed(4)
    logits = torch.randn(shape)
    values, columns = top_columns(logits, k)
    expected = logits.topk(min(k, shape[1]))
    assert torch.equal(values, expected.values)
    assert torch.equal(columns, expected.indices)


def test_top_tokens_are_log_probs_of_the_whole_row():
    logits = torch.tensor([[1.0, 3.0, 2.0], [0.0, 0.0, float("-inf")]])
    tokens, logprobs = top_tokens(logits, 2, ids=torch.tensor([10, 20, 30]))
    expected = logits.log_softmax(-1)
    assert tokens[0].tolist() == [20, 30]
    assert logprobs[0].tolist() == [round(float(expected[0, 1]) * 1e5), round(float(expected[0, 2]) * 1e5)]
    assert logprobs[1].tolist() == [-69315, -69315]
