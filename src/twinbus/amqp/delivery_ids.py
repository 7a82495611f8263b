"""Delivery ids are 32-bit serial numbers: ranges of them wrap around (RFC 1982).

A peer may name a range of billions of ids when a handful exist, so a range is never
walked if there are fewer deliveries than ids in it.
"""

from collections.abc import Mapping
from typing import Final

_MASK: Final = 0xFFFFFFFF


def find_ids(known: Mapping[int, object], first: int, last: int) -> list[int]:
    """The known ids from `first` to `last`, both included, in serial order.

    Costs no more than the smaller of the range and the known ids.
    """
    span = (last - first) & _MASK
    if span < len(known):
        ids = [(first + step) & _MASK for step in range(span + 1)]
        return [delivery_id for delivery_id in ids if delivery_id in known]
    steps = [(delivery_id - first) & _MASK for delivery_id in known]
    return [(first + step) & _MASK for step in sorted(steps) if step <= span]
