"""Gives freed memory back to the system.

By default the C library raises its threshold when a large buffer is freed: after one
buffer of 16 MB it takes all smaller ones from its heap, where one buffer that is still
in use keeps all memory below it. A bus that was flooded for a moment would stay that
large for days. With fixed thresholds, large buffers have pages of their own, which go
back to the system when they are freed.
"""

import ctypes
import os
from typing import Final

# Of malloc.h; other C libraries have no `mallopt`.
_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3

_LARGE_BYTES: Final = 128 * 1024
_SPARE_BYTES: Final = 1024 * 1024


def give_memory_back() -> None:
    """Set the thresholds for this process, unless its environment sets them."""
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_TRIM_THRESHOLD, _SPARE_BYTES)
    mallopt(_TOP_PAD, _SPARE_BYTES // 4)
