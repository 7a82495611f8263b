"""Which fragment a key belongs to.

The index follows from the key and the number of fragments alone, so every broker finds
the same one, at any time. The number of fragments of an entity never changes. The
function is a part of the stored format: with another one the messages of a session
would be spread over two fragments. The catalog records its version for each
partitioned entity.

CRC-32 is fast, and the same everywhere. Its low bits alone are uneven for keys that
differ in one digit; the multiplication spreads them.
"""

from typing import Final
from zlib import crc32

HASH_VERSION: Final = 1
"""Of `fragment_index`. A new function gets a new number, and this one stays."""

_GOLDEN: Final = 0x9E3779B1
"""2^32 divided by the golden ratio, odd: a common multiplier for spreading bits."""


def fragment_index(key: str, fragment_count: int) -> int:
    """The index of the fragment that has the messages with this key."""
    spread = (crc32(key.encode("utf-8", "surrogatepass")) * _GOLDEN) & 0xFFFFFFFF
    return (spread >> 16) % fragment_count
