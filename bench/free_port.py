"""Ports for servers that others have to find, or that start again at the same one.

A port that the kernel hands out (`bind` to 0) may be taken a moment later as the near
end of any connection that somebody opens. So these are below the range from which the
kernel takes, and each is kept for this process until it ends.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

# Linux gives connections ports from 32768 on; well-known servers are below 15000.
_FIRST, _LAST = 15_000, 32_000
_CLAIMS = Path(tempfile.gettempdir()) / f"ports-of-tests-{os.getuid()}"
# Seeded by the system: tests seed the module's own generator.
_random = random.SystemRandom()
_claimed: set[int] = set()


def free_port() -> int:
    """A loopback port that nobody listens on, and that no other caller gets."""
    _CLAIMS.mkdir(exist_ok=True)
    while True:
        port = _random.randint(_FIRST, _LAST)
        if _claim(port) and _is_free(port):
            return port


def _claim(port: int) -> bool:
    """Lock the port's file until this process ends."""
    if port in _claimed:
        return False
    claim = os.open(_CLAIMS / str(port), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(claim)
        return False
    _claimed.add(port)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
