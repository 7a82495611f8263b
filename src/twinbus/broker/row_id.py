"""Row ids: one signed 64-bit integer names a message within a store.

The upper 16 bits are the fragment's number in that store, the lower 48 the
sequence number within the fragment, so the primary key alone keeps a fragment's
messages together and in order, and no second index is needed (D2). Numbers start
at the lowest signed value, because both SQLite and PostgreSQL have signed keys
and 65,536 fragments are worth more than a pretty first row.

The sequence number that clients see is not this: on a partitioned entity its
upper 16 bits are the fragment's index within the entity (T15).
"""

from typing import Final

from twinbus.errors import RowIdOutOfRange
from twinbus.limits import FRAGMENTS_PER_STORE

SEQUENCE_BITS: Final = 48
SEQUENCE_MASK: Final = (1 << SEQUENCE_BITS) - 1

_LOWEST_NUMBER: Final = -(1 << 15)


def base_of(fragment_number: int) -> int:
    """The row id of the fragment's sequence number zero, which is never used. Raises
    RowIdOutOfRange."""
    if not 0 <= fragment_number < FRAGMENTS_PER_STORE:
        raise RowIdOutOfRange(f"there is no fragment {fragment_number} in a store")
    return (fragment_number + _LOWEST_NUMBER) << SEQUENCE_BITS


def check_next_sequence(next_sequence: int) -> None:
    """Raises RowIdOutOfRange if the number before it does not fit."""
    if not 0 < next_sequence <= SEQUENCE_MASK + 1:
        raise RowIdOutOfRange(f"the next sequence number is {next_sequence}")


def sequence_of(row_id: int) -> int:
    return row_id & SEQUENCE_MASK


def fragment_number_of(row_id: int) -> int:
    return (row_id >> SEQUENCE_BITS) - _LOWEST_NUMBER
