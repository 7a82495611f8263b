"""Conversion of messages to rows and back, and runs of row ids: for all values."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.broker.message import Annex
from twinbus.store.checks.owner import message
from twinbus.store.rows.annex import decode_annex, encode_annex
from twinbus.store.rows.sqlite_rows import (
    ANY,
    EXPIRING,
    OF_SESSION,
    PLAIN,
    SHARED,
    active_inserts,
    row_ranges,
)

_SIGNED = st.integers(min_value=-(2**63), max_value=2**63 - 1)
_TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]))
_ANNEXES = st.builds(
    Annex,
    dead_letter_reason=_TEXTS,
    dead_letter_description=_TEXTS,
    dead_letter_source=_TEXTS,
    modified=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.binary()
    ),
    enqueued_sequence_number=_SIGNED,
    forwarded_count=st.integers(0, 2**32 - 1),
)


@given(
    annex=st.none() | _ANNEXES,
    scheduled_at=st.integers(0, 2**62),
    uid=st.binary(max_size=64),
)
def test_annex_survives_encoding(
    annex: Annex | None, scheduled_at: int, uid: bytes
) -> None:
    blob = encode_annex(annex, scheduled_at, uid)
    if blob is None:
        assert (annex, scheduled_at, uid) == (None, 0, b"")
    else:
        assert decode_annex(blob) == (annex, scheduled_at, uid)


def test_annex_of_format_1_is_read() -> None:
    blob = (
        b"\x01\x09"
        + struct.pack("<qq", 42, 1_700_000_000_000)
        + struct.pack("<I", 3)
        + b"bad"
        + struct.pack("<II", 1, 6)
        + b"colour"
        + struct.pack("<I", 5)
        + b"\xa1\x03red"
    )
    annex = Annex(
        dead_letter_reason="bad",
        modified={"colour": b"\xa1\x03red"},
        enqueued_sequence_number=42,
    )
    assert decode_annex(blob) == (annex, 1_700_000_000_000, b"")


def test_annex_of_a_later_format_is_refused() -> None:
    with pytest.raises(ValueError, match="annex format 3"):
        decode_annex(b"\x03" + bytes(40))


def test_what_is_usual_binds_least() -> None:
    """Each value that is bound costs every message that is sent."""
    sent = [message(1, i) for i in (1, 2)]
    (insert,) = active_inserts(sent)
    assert insert[:2] == (PLAIN, 2)
    assert len(insert[2]) == 2 * 4
    for unusual, shape, count in (
        (message(1, 1, ttl_ms=1), EXPIRING, 6),
        (message(1, 1, session_id="s"), OF_SESSION, 7),
        (message(1, 1, body_id=9, is_shared=True, ttl_ms=1), SHARED, 6),
        (message(1, 1, body_id=9), ANY, 11),
        (message(1, 1, body_id=9, is_shared=True, session_id="s"), ANY, 11),
        (message(1, 1, delivery_count=1), ANY, 11),
        (message(1, 1, scheduled_at=1), ANY, 11),
    ):
        (insert,) = active_inserts([unusual])
        assert (insert[0], len(insert[2])) == (shape, count)


def test_rows_of_several_fragments_are_written_in_the_order_of_the_table() -> None:
    copies = [
        message(fragment, sequence, body_id=9, is_shared=True)
        for sequence in (1, 2)
        for fragment in (2, 1)
    ]
    (insert,) = active_inserts(copies)
    assert insert[2][::6] == sorted(copy.row_id for copy in copies)


@given(
    runs=st.lists(
        st.tuples(
            st.integers(min_value=-(2**63), max_value=-(2**63) + 60), st.integers(1, 9)
        )
    ),
    shuffled=st.randoms(use_true_random=False),
)
def test_ranges_cover_exactly_the_row_ids(runs, shuffled) -> None:  # type: ignore[no-untyped-def]
    row_ids = [first + i for first, length in runs for i in range(length)]
    shuffled.shuffle(row_ids)
    for ids in (row_ids, sorted(row_ids)):
        covered: set[int] = set()
        for first, last in row_ranges(ids):
            assert first <= last
            covered.update(range(first, last + 1))
        assert covered == set(ids)


def test_consecutive_row_ids_are_one_range() -> None:
    assert row_ranges([]) == []
    assert row_ranges([7]) == [(7, 7)]
    assert row_ranges(list(range(-500, 500))) == [(-500, 499)]
    assert row_ranges([3, 2, 1, 9, 8]) == [(1, 3), (8, 9)]
