"""The allocator keeps what a round frees for the next one."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys

import pytest


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="speaks to glibc")
def test_freed_memory_is_kept():
    """Freeing 100 MB and taking them again faults the pages in anew, unless the library keeps them."""
    code = """
import ctypes, resource
from treegraft.models.memory import keep_memory
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
