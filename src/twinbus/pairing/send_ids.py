"""Ids that tell one attempt of a message from another message.

An id has sixteen bytes: eight random ones that are drawn once per process, and a
counter. So a ledger gets the ids of a sender in order, which is cheapest for it.

A scheduled message gets eight random bytes instead. If the primary cannot give a
sequence number, `schedule_messages` returns these bytes as a negative number, which
cannot be mistaken for a sequence number. The last bit of the number says whether the
primary may have the message after all, from an attempt that it did not answer.
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
    """The negative number for a scheduled message. `was_tried`: the primary may have
    it, from an attempt without an answer."""
    return -(int.from_bytes(send_id, "big") << 1 | was_tried)


def send_id_of(number: int) -> bytes:
    """The send id that such a number stands for."""
    return (-number >> 1).to_bytes(_SCHEDULED_BYTES, "big")


def was_tried(number: int) -> bool:
    """Whether the primary may have the message of such a number."""
    return -number & 1 == 1
