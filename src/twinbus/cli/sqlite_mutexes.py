"""Lets SQLite leave out mutexes that a server does not need.

By default each call takes the mutex of its connection, and each allocation that of the
allocator, which counts the memory in use. A server uses a connection in one thread at a
time, and nobody asks for that count. As it has a second thread, its watchdog, each
mutex costs atomic instructions: some dozens of them for each message.
"""

import _sqlite3
import ctypes
import sys
from typing import Final

# Of sqlite3.h.
_OK: Final = 0
_MULTI_THREAD: Final = 2
_MEMORY_STATUS: Final = 9


def spare_mutexes() -> bool:
    """Configure SQLite for this process, before it opens anything. False if that cannot
    be done: then all mutexes stay."""
    path = getattr(_sqlite3, "__file__", None)
    if path is None or sys.platform != "linux":
        # Elsewhere functions with varying arguments may be called in another way. Or it
        # is built into the interpreter, where its functions cannot be found by name.
        return False
    library = ctypes.CDLL(path)
    if not hasattr(library, "sqlite3_config"):
        return False
    if library.sqlite3_shutdown() != _OK:
        return False
    is_done: bool = library.sqlite3_config(_MULTI_THREAD) == _OK
    is_done = library.sqlite3_config(_MEMORY_STATUS, 0) == _OK and is_done
    library.sqlite3_initialize()
    return is_done
