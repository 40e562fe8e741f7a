"""Muon: momentum whose update matrices are made orthogonal (Keller Jordan, kellerjordan.github.io/posts/muon, 2024).

torch.optim.Muon does the same, but always orthogonalises in bfloat16, which takes a CPU without bf16 units seconds a
matrix. Here it happens in the dtype of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration: steep at zero, singular values end near one."""
ITERATIONS = 5
ADAM_RMS = 0.2
"""Root mean square of an AdamW update in units of its learning rate; ours are scaled to it (arXiv 2502.16982)."""


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """The nearest matrix whose singular values are about one, by Newton-Schulz iteration."""
    a, b, c = NEWTON_SCHULZ
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """For weight matrices [out, in]; `lr` is on AdamW's scale."""

    def __init__(self, params: Iterable[torch.nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                velocity = self.state[weight].setdefault("velocity", torch.zeros_like(weight))
                velocity.lerp_(weight.grad, 1 - group["momentum"])
                update = orthogonal(weight.grad.lerp(velocity, group["momentum"]))
                weight.add_(update, alpha=-group["lr"] * ADAM_RMS * max(weight.shape) ** 0.5)
