"""Messages to rows and back, and runs of row ids: for all values."""

from hypothesis import given
from hypothesis import strategies as st

from twinbus.broker.message import Annex
from twinbus.store.rows.annex import decode_annex, encode_annex
from twinbus.store.rows.sqlite_rows import row_ranges

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
)


@given(annex=st.none() | _ANNEXES, scheduled_at=st.integers(0, 2**62))
def test_annex_survives_encoding(annex: Annex | None, scheduled_at: int) -> None:
    blob = encode_annex(annex, scheduled_at)
    if blob is None:
        assert annex is None and scheduled_at == 0
    else:
        assert decode_annex(blob) == (annex, scheduled_at)


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
