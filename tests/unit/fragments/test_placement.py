"""Fragments are spread over all stores, the emptiest first."""

from twinbus.fragments.placement import spread


def test_fragments_are_spread_evenly_and_begin_with_the_emptiest_store() -> None:
    placed = spread(5, [(7, b"a"), (0, b"b"), (3, b"c")])
    assert placed == (b"b", b"c", b"a", b"b", b"c")


def test_one_store_has_all_fragments() -> None:
    assert spread(3, [(9, b"only")]) == (b"only",) * 3


def test_stores_with_equally_many_fragments_keep_their_order() -> None:
    assert spread(3, [(2, b"z"), (2, b"a"), (2, b"m")]) == (b"z", b"a", b"m")
