"""The machine that a benchmark's numbers belong to."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import torch

from treegraft.models.device import has_fast_bf16
from treegraft.run import describe_host

CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Machine:
    """Where the numbers were measured. `load` is the machine's load average (processes, 1 minute) before the start;
    `memory_kept` tells whether freed memory stays with the process, see `models.memory.keep_memory`."""

    cpu: str
    system: str
    cores: int
    threads: int
    accelerator: str
    fast_bf16: bool
    load: float | None
    memory_kept: bool
    python: str
    torch: str
    transformers: str
    treegraft: str

    @property
    def is_busy(self) -> bool:
        """Whether other work takes so much of the machine that times are of little use."""
        return self.load is not None and self.load > self.cores / 2


def describe_machine(device: torch.device, memory_kept: bool) -> Machine:
    host = describe_host()
    return Machine(
        cpu=cpu_name(), system=f"{platform.system()} {platform.machine()}", cores=available_cores(),
        threads=host.threads, accelerator=host.accelerator if device.type == "cuda" else "",
        fast_bf16=has_fast_bf16(device),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None, memory_kept=memory_kept,
        python=host.python, torch=host.torch, transformers=host.transformers, treegraft=host.treegraft)


def cpu_name() -> str:
    """The processor's name, as well as the system knows it."""
    if CPU_INFO.is_file():
        for line in CPU_INFO.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
