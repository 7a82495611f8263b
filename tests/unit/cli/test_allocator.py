"""Freed memory is given back to the system, whatever was freed before."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt"
)

_SCRIPT = """
import resource, sys
from twinbus.cli.allocator import give_memory_back

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6

give_memory_back()
for _ in range(2):
    del_me = bytearray(16 << 20)  # from now on the C library would keep smaller ones
    del del_me
before = resident_mb()
flood = [bytearray(b"x" * 200_000) for _ in range(500)]
survivor = bytearray(b"x" * 200_000)
del flood
print(resident_mb() - before)
"""


def _left_mb(**settings: str) -> float:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env={**environment, **settings},
        capture_output=True,
        check=True,
    )
    return float(done.stdout)


def test_a_flood_leaves_nothing_behind() -> None:
    assert _left_mb() < 10


def test_settings_of_the_environment_are_kept() -> None:
    assert _left_mb(MALLOC_MMAP_THRESHOLD_=str(32 << 20)) > 50
