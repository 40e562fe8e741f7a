"""What a trace keeps of a target pass whose logits have many equals, as in low precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from treegraft.models.answers import Answers
from treegraft.models.topk import favourites
from treegraft.tree import DraftTree


def coarse(rows: int, vocab: int, seed: int) -> torch.Tensor:
    """Logits of five different values, the largest rare."""
    draws = torch.rand(rows, vocab, generator=torch.Generator().manual_seed(seed))
    return torch.bucketize(draws, torch.tensor([0.3, 0.6, 0.9, 1 - 3 / vocab])).to(torch.bfloat16)


@pytest.mark.parametrize("vocab", [60, 8192])
@pytest.mark.parametrize("seed", range(5))
def test_of_equal_tokens_the_lowest_comes_first_everywhere(vocab, seed):
    tree = DraftTree(3, 5, 8)
    tree.add(np.zeros(2, np.int64), np.array([5, 9]), np.array([-100, -200]), 0)
    logits = coarse(3, vocab, seed)
    answers = Answers(tree, np.arange(3), logits, favourites(logits).numpy())
    verify, _ = answers.describe(np.array([1]))
    assert [walked.tokens[0] for walked in verify.walk] == verify.argmax[:2] == answers.best(8)[:2, 0].tolist()
    assert answers.rivals(np.array([1]), 8).tolist() == answers.best(8)[1].tolist()
    for walked in verify.walk:
        best_first = sorted(zip(walked.logprobs, walked.tokens, strict=True), key=lambda pair: (-pair[0], pair[1]))
        assert [token for _, token in best_first] == walked.tokens
