"""What the target tells drafters while it decodes is what the trace keeps of it, to the last unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from treegraft.models.answers import Answers
from treegraft.tree import DraftTree

VOCAB = 512
CHAIN = [5, 6, 7]


@pytest.mark.parametrize("ask_once", [False, True])
@pytest.mark.parametrize("accepted", [0, 1, 3])
def test_drafters_and_trace_get_the_same_logprobs(ask_once, accepted):
    """Logits so large that two ways to work their log-probs out differ by several units in fp32."""
    random = torch.Generator().manual_seed(1)
    logits = 300 + torch.randn((len(CHAIN) + 1, VOCAB), generator=random)
    best = torch.tensor([*CHAIN[:accepted], 9, *[9] * (len(CHAIN) - accepted)])
    logits[torch.arange(len(logits)), best] = 308.1
    tree = DraftTree(1, 4, len(logits))
    tree.append([0, 1, 2], CHAIN, [0, 0, 0], 0)
    answers = Answers(tree, np.arange(len(logits)), logits, best.numpy())
    if ask_once:
        answers.facts = answers.read(np.arange(len(CHAIN)), np.arange(len(logits)), best)
    path, tokens = np.arange(1, accepted + 1), [*CHAIN[:accepted], 9]
    verify, _ = answers.describe(path)
    last = verify.walk[-1]
    recorded = [*(verify.logprob[node] for node in path), dict(zip(last.tokens, last.logprobs, strict=True))[9]]
    assert answers.logprobs(path, tokens).tolist() == recorded


@pytest.mark.parametrize("ask_once", [False, True])
@pytest.mark.parametrize("k", [3, 20])
def test_the_rivals_of_the_bonus_are_read_at_the_end_of_the_path(ask_once, k):
    tree = DraftTree(1, 5, 6)
    tree.append(np.array([0, 0, 2, 3]), np.array([2, 3, 4, 5]), np.zeros(4), 0)
    order = np.array([0, 2, 3, 4])
    logits = torch.randn(len(order), 64, generator=torch.Generator().manual_seed(0))
    answers = Answers(tree, order, logits, logits.argmax(-1).numpy())
    if ask_once:
        answers.facts = answers.read(np.arange(3), np.arange(4), logits.argmax(-1))
    for path, row in (([], 0), ([2], 1), ([2, 3], 2)):
        assert answers.rivals(np.array(path, np.int64), k).tolist() == logits[row].topk(k).indices.tolist()
