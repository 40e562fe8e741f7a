"""Muon's update is orthogonal and scaled like AdamW's."""

from __future__ import annotations

import pytest
import torch

from treegraft.distill.muon import ADAM_RMS, Muon, orthogonal


@pytest.mark.parametrize("shape", [(6, 20), (20, 6), (8, 8)])
def test_singular_values_come_near_one(shape):
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_an_update_has_the_size_of_one_of_adamw():
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.zeros(24, 64))
    weight.grad = torch.randn(24, 64)
    Muon([weight], lr=0.5).step()
    assert weight.detach().pow(2).mean().sqrt().item() == pytest.approx(0.5 * ADAM_RMS, rel=0.2)


def test_it_finds_a_minimum():
    torch.manual_seed(0)
    wanted = torch.randn(6, 9)
    weight = torch.nn.Parameter(torch.zeros(6, 9))
    optimizer = Muon([weight], lr=0.1)
    for step in range(200):
        weight.grad = weight.detach() - wanted
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / 200)
        optimizer.step()
    assert (weight - wanted).abs().max() < 0.1
