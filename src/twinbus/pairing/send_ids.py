"""Ids that tell one attempt of a message from another message (D9).

Sixteen bytes: eight of the process, drawn once, and a counter. So a ledger gets the ids
of a sender in order, which costs it least.

A scheduled message gets eight random bytes instead. They fit into the number that
`schedule_messages` returns where the primary could not be asked for one: negative, so
that it is never taken for a sequence number. Its last bit says whether the primary may
have the message all the same, from an attempt that it did not answer.
"""

from collections.abc import Callable
from typing import Final, final

_SCHEDULED_BYTES: Final = 8
_LARGEST: Final = (1 << 62) - 1
"""What fits, with one bit more, into a sequence number."""


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


def number_of(send_id: bytes, *, was_tried: bool) -> int:
    """What stands for a sequence number of a scheduled message; `was_tried`: on the
    primary, which did not say that it has it."""
    return -(int.from_bytes(send_id, "big") << 1 | was_tried)


def send_id_of(number: int) -> bytes:
    """The send id that such a number stands for."""
    return (-number >> 1).to_bytes(_SCHEDULED_BYTES, "big")


def was_tried(number: int) -> bool:
    """The primary may have the message that such a number stands for."""
    return -number & 1 == 1
