"""The chunked loss is the plain one, and so are its gradients."""

from __future__ import annotations

import pytest
import torch

from treegraft.distill import loss


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(loss, "CHUNK", 3 * 11)


def some(rows: int = 8, hidden: int = 5, vocab: int = 11) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randn(rows, hidden, requires_grad=True), torch.randn(vocab, hidden, requires_grad=True),
            torch.randn(rows, vocab).softmax(-1))


def test_loss_and_gradients_equal_the_plain_formula():
    hidden, weight, target = some()
    plain = -(target * (hidden @ weight.T).log_softmax(-1)).sum()
    expected = torch.autograd.grad(2 * plain, (hidden, weight))
    ours = loss.soft_cross_entropy(hidden, weight, lambda part: target[part])
    assert torch.allclose(ours, plain)
    for found, wanted in zip(torch.autograd.grad(2 * ours, (hidden, weight)), expected, strict=True):
        assert torch.allclose(found, wanted, atol=1e-5)


def test_a_frozen_head_gets_no_gradient():
    hidden, weight, target = some()
    loss.soft_cross_entropy(hidden, weight.detach(), lambda part: target[part]).backward()
    assert weight.grad is None
    assert hidden.grad is not None


def test_agreement_counts_what_it_says():
    hidden, weight, target = some()
    sums = loss.agreement(hidden, weight, lambda part: target[part])
    logits = hidden @ weight.T
    best, favourite = logits.topk(5).indices, target.argmax(-1)
    divergence = torch.nn.functional.kl_div(logits.log_softmax(-1), target, reduction="sum")
    expected = [divergence.item(), (best[:, 0] == favourite).sum(), (best == favourite[:, None]).any(-1).sum(), 8]
    assert torch.allclose(sums, torch.tensor(expected), atol=1e-4)


def test_a_perfect_student_diverges_by_nothing():
    hidden, weight, _ = some()
    sums = loss.agreement(hidden, weight, lambda part: (hidden[part] @ weight.T).softmax(-1).detach())
    assert sums[0].abs() < 1e-4
    assert sums[1] == sums[2] == 8
