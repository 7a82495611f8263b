"""SQLite without the mutexes that a server does not need."""

import subprocess
import sys

_SCRIPT = """
import ctypes, sqlite3, _sqlite3
from twinbus.cli.sqlite_mutexes import spare_mutexes

library = ctypes.CDLL(_sqlite3.__file__)
library.sqlite3_db_mutex.restype = ctypes.c_void_p
library.sqlite3_memory_used.restype = ctypes.c_int64

def first_pointer(connection):
    # A Python object has its count and its type first, then the connection of SQLite.
    at = id(connection) + 2 * ctypes.sizeof(ctypes.c_void_p)
    return ctypes.c_void_p.from_address(at)

before = sqlite3.connect(":memory:")
assert library.sqlite3_db_mutex(first_pointer(before)) is not None
assert library.sqlite3_memory_used() > 0
before.close()
assert spare_mutexes()
after = sqlite3.connect(":memory:", isolation_level=None)
assert library.sqlite3_db_mutex(first_pointer(after)) is None
after.execute("CREATE TABLE t (a)")
after.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(1000)])
assert after.execute("SELECT sum(a) FROM t").fetchone() == (499500,)
assert library.sqlite3_memory_used() == 0
after.close()
"""


def test_connections_have_no_mutex_and_work() -> None:
    """In a process of its own: it is for all of a process."""
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


_WITHOUT_LIBRARY = """
import sys, types
sys.modules["_sqlite3"] = types.ModuleType("_sqlite3")
from twinbus.cli.sqlite_mutexes import spare_mutexes
assert not spare_mutexes()
"""


def test_interpreter_that_has_sqlite_inside_keeps_them() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_LIBRARY], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
