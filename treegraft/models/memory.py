"""Memory that stays with the process between rounds."""

from __future__ import annotations

import ctypes
import platform

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""glibc's names of two settings of `mallopt`."""

HELD_BYTES = 1 << 30


def keep_memory() -> bool:
    """Ask the C library to keep freed memory for the next allocation; whether it agreed.

    glibc hands large freed blocks, such as the logits of a tree, back to the system and faults them in again, page by
    page, at the next round. How often depends on what else was allocated, so times jump without a cause in the code.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    return all(library.mallopt(setting, HELD_BYTES) == 1 for setting in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD))
