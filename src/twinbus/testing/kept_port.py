"""Ports of test buses, kept while nobody listens on them.

Clients of a bus that has ended may try its port again for a while. Ports that the
kernel chooses are soon given to somebody else, who would get bytes that are not meant
for them. So a test bus takes a port below the range from which the kernel chooses.
"""

import random
import socket
from typing import Final

_FIRST: Final = 15_000
_LAST: Final = 32_000
"""Linux gives connections ports from 32768 on; known servers are below 15000."""

_TRIES: Final = 1_000

# Seeded by the system: tests seed the module's own generator.
_random = random.SystemRandom()


def keep_any_port() -> socket.socket:
    """Bound to a loopback port that nobody else has. Raises OSError."""
    for _ in range(_TRIES):
        kept = socket.socket()
        try:
            kept.bind(("127.0.0.1", _random.randint(_FIRST, _LAST)))
        except OSError:
            kept.close()
        else:
            return kept
    raise OSError(f"no port from {_FIRST} to {_LAST} is free")


def keep_port(port: int) -> socket.socket:
    """Bound to a port that a server has just left. Raises OSError if another program
    was quicker."""
    kept = socket.socket()
    # Connections that have just ended still hold it.
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        kept.bind(("127.0.0.1", port))
    except OSError:
        kept.close()
        raise
    return kept
