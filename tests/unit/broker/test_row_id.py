"""Row ids keep fragment and sequence number, within 64 signed bits."""

import pytest

from twinbus.broker.row_id import (
    SEQUENCE_MASK,
    base_of,
    fragment_number_of,
    sequence_of,
)
from twinbus.errors import RowIdOutOfRange

from .world import Place


@pytest.mark.parametrize("number", [0, 1, 32_767, 32_768, 65_535])
@pytest.mark.parametrize("sequence", [1, 2, SEQUENCE_MASK])
def test_both_parts_come_out_again(number: int, sequence: int) -> None:
    row_id = base_of(number) + sequence
    assert -(1 << 63) <= row_id < 1 << 63
    assert (fragment_number_of(row_id), sequence_of(row_id)) == (number, sequence)


def test_fragments_lie_one_after_the_other() -> None:
    assert base_of(1) + 1 == base_of(0) + SEQUENCE_MASK + 2


@pytest.mark.parametrize("number", [-1, 65_536, 1 << 40])
def test_a_number_that_does_not_fit_names_no_row(number: int) -> None:
    with pytest.raises(RowIdOutOfRange, match=str(number)):
        base_of(number)


def test_no_sequence_number_reaches_into_the_next_fragment() -> None:
    place = Place()
    place.queue.next_sequence = SEQUENCE_MASK
    place.send(b"the last")
    with pytest.raises(RowIdOutOfRange, match=str(SEQUENCE_MASK + 2)):
        place.send(b"one too many")
