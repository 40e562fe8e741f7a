"""Where a model runs and in which number format."""

from __future__ import annotations

import torch

from treegraft.models.errors import DeviceError

DTYPES = {"float32": torch.float32, "fp32": torch.float32, "bfloat16": torch.bfloat16, "bf16": torch.bfloat16,
          "float16": torch.float16, "fp16": torch.float16}
"""The names that a user may give. float16 overflows in many models and is never chosen without being asked for."""

FAST_BF16_CUDA = (8, 0)
"""Lowest CUDA compute capability with bf16 matrix units."""


def available_devices() -> list[str]:
    """Names of the devices of this machine, the preferred one first."""
    found = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    if torch.backends.mps.is_available():
        found.append("mps")
    return [*found, "cpu"]


def pick_device(name: str | torch.device | None = None) -> torch.device:
    """The named device, or the best one that there is: cuda, else mps, else cpu.

    Errors: `DeviceError` for one that this machine lacks.
    """
    found = available_devices()
    wanted = str(name) if name is not None else found[0]
    if wanted == "cuda":
        wanted = "cuda:0"
    if wanted not in found:
        raise DeviceError(f"device was {str(name)!r}; this machine has: {', '.join(found)}. "
                          "Leave the device out to use the first of them.")
    return torch.device(wanted)


def pick_dtype(device: torch.device, name: str | torch.dtype | None = None) -> torch.dtype:
    """The named dtype, or bfloat16 where `device` computes fast in it, else float32.

    Errors: `DeviceError` for an unknown name.
    """
    if name is None:
        return torch.bfloat16 if has_fast_bf16(device) else torch.float32
    dtype = name if isinstance(name, torch.dtype) else DTYPES.get(name)
    if dtype not in DTYPES.values():
        raise DeviceError(f"dtype was {name!r}; allowed: {', '.join(DTYPES)}. Leave it out to let the device decide.")
    return dtype


def has_fast_bf16(device: torch.device) -> bool:
    """Whether `device` has bf16 matrix instructions: CUDA sm80 and later, CPUs with AVX512-BF16 or AMX."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= FAST_BF16_CUDA
    if device.type == "cpu":
        tell = getattr(torch.cpu, "get_capabilities", dict)  # older versions of torch do not tell
        abilities = tell()
        return bool(abilities.get("avx512_bf16") or abilities.get("amx_bf16"))
    return False
