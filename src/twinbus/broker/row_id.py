"""Row ids: one signed 64-bit integer identifies a message within a store.

The upper 16 bits are the fragment's number in that store, the lower 48 the sequence
number within the fragment. So the primary key alone keeps a fragment's messages
together and in order, and no second index is needed. Fragment numbers start at the
lowest signed value: keys of SQLite and PostgreSQL are signed, and so all 65,536 numbers
can be used.

Clients see another number: on a partitioned entity the upper 16 bits of a sequence
number are the fragment's index within the entity.
"""

from typing import Final

from twinbus.errors import RowIdOutOfRange
from twinbus.limits import FRAGMENTS_PER_STORE

SEQUENCE_BITS: Final = 48
SEQUENCE_MASK: Final = (1 << SEQUENCE_BITS) - 1

_LOWEST_NUMBER: Final = -(1 << 15)


def base_of(fragment_number: int) -> int:
    """The row id of the fragment's sequence number 0, which is never used. Raises
    RowIdOutOfRange."""
    if not 0 <= fragment_number < FRAGMENTS_PER_STORE:
        raise RowIdOutOfRange(f"there is no fragment {fragment_number} in a store")
    return (fragment_number + _LOWEST_NUMBER) << SEQUENCE_BITS


def check_next_sequence(next_sequence: int) -> None:
    """Raises RowIdOutOfRange if the last sequence number given is out of range."""
    if not 0 < next_sequence <= SEQUENCE_MASK + 1:
        raise RowIdOutOfRange(f"the next sequence number is {next_sequence}")


def sequence_of(row_id: int) -> int:
    return row_id & SEQUENCE_MASK


def fragment_number_of(row_id: int) -> int:
    return (row_id >> SEQUENCE_BITS) - _LOWEST_NUMBER
