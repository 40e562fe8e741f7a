"""How far a student's next-token distributions are from the target's, over large vocabularies in little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

CHUNK = 1 << 23
"""Logits worked on at a time: on a CPU they stay in the cache."""

Teacher = Callable[[slice], torch.Tensor]
"""The target's distributions [rows, vocab] of some rows."""


def chunks(rows: int, vocab: int) -> Iterator[slice]:
    """Slices of `rows` of `CHUNK` logits each."""
    size = max(1, CHUNK // vocab)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def product_dtype(hidden: torch.Tensor) -> torch.dtype:
    """What matrix products are computed in: autocast's dtype, else the tensor's own."""
    kind = hidden.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype


class SoftCrossEntropy(torch.autograd.Function):
    """Summed cross-entropy from a teacher to softmax(hidden @ weight.T), with its gradients, a chunk at a time.

    The logits [rows, vocab] are never kept: at 4,000 rows of a vocabulary of 50,000 they would take gigabytes.
    """

    @staticmethod
    def forward(ctx, hidden: torch.Tensor, weight: torch.Tensor, teacher: Teacher) -> torch.Tensor:
        dtype = product_dtype(hidden)
        x, w = hidden.detach().to(dtype), weight.detach().to(dtype)
        grad_hidden = torch.empty_like(x)
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        total = hidden.new_zeros((), dtype=torch.float32)
        for part in chunks(len(x), w.shape[0]):
            target = teacher(part)
            logprobs = (x[part] @ w.T).float().log_softmax(-1)
            total -= torch.dot(target.flatten(), logprobs.flatten())
            grad = logprobs.exp_().sub_(target).to(dtype)
            grad_hidden[part] = grad @ w
            if grad_weight is not None:
                grad_weight += grad.T @ x[part]
        ctx.save_for_backward(grad_hidden.to(hidden.dtype), grad_weight)
        return total

    @staticmethod
    def backward(ctx, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad, None if grad_weight is None else grad_weight * grad, None


def soft_cross_entropy(hidden: torch.Tensor, weight: torch.Tensor, teacher: Teacher) -> torch.Tensor:
    """Cross-entropy summed over rows, from `teacher` to the student: `hidden` [rows, n] under the head `weight`
    [vocab, n]. Its gradient is that of the Kullback-Leibler divergence."""
    return SoftCrossEntropy.apply(hidden, weight, teacher)


@torch.no_grad()
def agreement(hidden: torch.Tensor, weight: torch.Tensor, teacher: Teacher) -> torch.Tensor:
    """Sums over rows [4]: the KL divergence (nats), whether the target's favourite is the student's, whether it is
    among the student's best five, and one a row."""
    sums = torch.zeros(4, device=hidden.device)
    dtype = product_dtype(hidden)
    for part in chunks(len(hidden), weight.shape[0]):
        target = teacher(part)
        logprobs = (hidden[part].to(dtype) @ weight.T.to(dtype)).float().log_softmax(-1)
        divergence = torch.xlogy(target, target).sum() - torch.dot(target.flatten(), logprobs.flatten())
        hit = logprobs.topk(min(5, weight.shape[0])).indices == target.argmax(-1, keepdim=True)
        sums += torch.stack((divergence, hit[:, 0].sum(), hit.sum(), sums.new_tensor(len(target))))
    return sums
