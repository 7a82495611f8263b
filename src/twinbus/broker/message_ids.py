"""Ids for messages that come without one: random, and cheap by the thousand.

Randomness is drawn in portions, because asking the system for it costs more than
everything else that is done for such a message.
"""

from collections.abc import Callable
from typing import Final, final

DIGIT_COUNT: Final = 32
"""Hexadecimal: 128 random bits, so that no two messages of any bus have the same id."""

_PORTION: Final = 256


@final
class MessageIds:
    """The ids that one bus gives."""

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        self._entropy: Callable[[int], bytes] = entropy
        # Digits of those that are left, and where the next begins.
        self._digits: bytes = b""
        self._at: int = 0

    def next(self) -> bytes:
        """As .NET writes a GUID in its form N."""
        at = self._at
        if at + DIGIT_COUNT > len(self._digits):
            self._digits = self._entropy(_PORTION * DIGIT_COUNT // 2).hex().encode()
            at = 0
        self._at = at + DIGIT_COUNT
        return self._digits[at : at + DIGIT_COUNT]
