"""Ids that tell one attempt of a message from another message (D9).

Sixteen bytes: eight of the process, drawn once, and a counter. So a ledger gets the ids
of a sender in order, which costs it least.

A scheduled message gets eight random bytes instead. They fit into the number that
`schedule_messages` returns where the primary could not be asked for one: negative, so
that it is never taken for a sequence number.
"""

from collections.abc import Callable
from typing import Final, final

_SCHEDULED_BYTES: Final = 8
_LARGEST: Final = (1 << 63) - 1


@final
class SendIds:
    """The ids of one process."""

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        self._entropy = entropy
        self._process = entropy(8)
        self._count = 0

    def next(self) -> bytes:
        self._count += 1
        return self._process + self._count.to_bytes(8, "big")

    def next_scheduled(self) -> bytes:
        drawn = int.from_bytes(self._entropy(_SCHEDULED_BYTES), "big") & _LARGEST
        return max(drawn, 1).to_bytes(_SCHEDULED_BYTES, "big")


def number_of(send_id: bytes) -> int:
    """What stands for a sequence number of a scheduled message."""
    return -int.from_bytes(send_id, "big")


def send_id_of(number: int) -> bytes:
    """The send id that such a number stands for."""
    return (-number).to_bytes(_SCHEDULED_BYTES, "big")
