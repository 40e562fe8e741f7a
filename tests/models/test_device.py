"""The best device and dtype of the machine are chosen, and wishes that it cannot fulfil are refused."""

from __future__ import annotations

import pytest
import torch

from treegraft.models.device import available_devices, has_fast_bf16, pick_device, pick_dtype
from treegraft.models.errors import DeviceError

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda:0"), torch.device("mps")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """Pretend to be a machine with so many CUDA devices of one capability, with or without MPS, and CPU abilities."""
    def pretend(cuda=0, capability=(9, 0), mps=False, cpu=()):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(cpu, True))
    return pretend


def test_cuda_before_mps_before_cpu(machine):
    machine(cuda=2, mps=True)
    assert available_devices() == ["cuda:0", "cuda:1", "mps", "cpu"]
    assert pick_device() == CUDA
    assert pick_device("cuda") == CUDA
    assert pick_device("cuda:1") == torch.device("cuda:1")
    machine(mps=True)
    assert pick_device() == MPS
    machine()
    assert pick_device() == CPU


@pytest.mark.parametrize("wanted", ["cuda", "cuda:2", "mps", "tpu", ""])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(machine, wanted):
    machine(cuda=0)
    with pytest.raises(DeviceError, match="this machine has: cpu"):
        pick_device(wanted)


@pytest.mark.parametrize(("setup", "device", "expected"), [
    ({"cuda": 1, "capability": (8, 0)}, CUDA, torch.bfloat16),
    ({"cuda": 1, "capability": (7, 5)}, CUDA, torch.float32),
    ({"mps": True}, MPS, torch.float32),
    ({"cpu": ["avx512_bf16"]}, CPU, torch.bfloat16),
    ({"cpu": ["amx_bf16"]}, CPU, torch.bfloat16),
    ({"cpu": ["avx2", "avx512_f", "avx512_fp16"]}, CPU, torch.float32),
])
def test_bf16_only_where_it_is_fast_and_float16_never_unasked(machine, setup, device, expected):
    machine(**setup)
    assert pick_dtype(device) == expected
    assert has_fast_bf16(device) == (expected == torch.bfloat16)


def test_the_user_decides():
    assert pick_dtype(CPU, "bf16") == pick_dtype(CPU, torch.bfloat16) == torch.bfloat16
    assert pick_dtype(CPU, "fp16") == pick_dtype(CPU, "float16") == torch.float16
    assert pick_dtype(CPU, "float32") == torch.float32


@pytest.mark.parametrize("wanted", ["int8", "", torch.int32, 16])
def test_an_unknown_dtype_is_refused_with_the_known_ones(wanted):
    with pytest.raises(DeviceError, match="allowed: float32, fp32, bfloat16"):
        pick_dtype(CPU, wanted)
