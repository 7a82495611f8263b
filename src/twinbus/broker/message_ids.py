"""Ids for messages that have none: random, and cheap to make.

Random bytes are drawn in portions: a system call per message would cost more than
everything else that is done for it.
"""

from collections.abc import Callable
from typing import Final, final

DIGIT_COUNT: Final = 32
"""Hexadecimal digits: 128 random bits, so that ids are unique over all buses."""

_PORTION: Final = 256


@final
class MessageIds:
    """Makes the ids of one bus."""

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        self._entropy: Callable[[int], bytes] = entropy
        # Digits that are left, and where the next id begins.
        self._digits: bytes = b""
        self._at: int = 0

    def next(self) -> bytes:
        """A new id, as .NET writes a GUID in format N."""
        at = self._at
        if at + DIGIT_COUNT > len(self._digits):
            self._digits = self._entropy(_PORTION * DIGIT_COUNT // 2).hex().encode()
            at = 0
        self._at = at + DIGIT_COUNT
        return self._digits[at : at + DIGIT_COUNT]
