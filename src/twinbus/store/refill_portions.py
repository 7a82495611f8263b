"""Portions for many windows within one limit, as every store cuts them.

A database server may do the same in one statement. An embedded store has no round
trips to save: it reads one window after the other.
"""

from collections.abc import Callable, Sequence

from twinbus.broker.message import Message
from twinbus.store.base import WindowRefill

# Reads a refill within a number of messages and a number of bytes.
ReadPortion = Callable[[WindowRefill, int, int], list[Message]]


def read_portions(
    read: ReadPortion, refills: Sequence[WindowRefill], limit: int, limit_bytes: int
) -> list[list[Message]]:
    """The answer of `Store.read_refills`."""
    portions: list[list[Message]] = []
    for refill in refills:
        portion = read(
            refill, min(refill.limit, limit), min(refill.limit_bytes, limit_bytes)
        )
        portions.append(portion)
        if len(portions) == len(refills):
            break  # a single window, which is the usual case, need not be counted
        limit -= len(portion)
        limit_bytes -= sum([len(message.raw) for message in portion])
        if limit <= 0 or limit_bytes <= 0:
            break
    return portions
