"""What is told about the machine."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from treegraft.bench import machine


def test_the_processor_is_named_as_the_system_does(tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Fast 9000 @ 3 GHz\nflags\t\t: fpu\n")
    monkeypatch.setattr(machine, "CPU_INFO", info)
    assert machine.cpu_name() == "Fast 9000 @ 3 GHz"
    info.write_text("Processor\t: ARM\n")
    assert machine.cpu_name() == (platform.processor() or platform.machine())


def test_a_machine_is_busy_when_others_take_half_of_it():
    here = replace(machine.describe_machine(torch.device("cpu"), memory_kept=False), cores=4)
    assert here.threads == torch.get_num_threads()
    assert not here.memory_kept
    assert [replace(here, load=load).is_busy for load in (None, 0.5, 2.0, 2.5)] == [False, False, False, True]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="speaks to glibc")
def test_freed_memory_is_kept():
    """Freeing 100 MB and taking them again faults the pages in anew, unless the library keeps them."""
    code = """
import ctypes, resource
from treegraft.bench.machine import keep_memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for turn in range(9):
        place = libc.malloc(100 << 20)
        ctypes.memset(place, turn, 100 << 20)
        libc.free(place)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults(), keep_memory(), faults())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, kept, after = done.stdout.split()
    pages = (100 << 20) // resource.getpagesize()
    assert kept == "True"
    assert int(after) < 3 * pages < 8 * pages < int(before)
