"""Duplicates: in the store, or earlier in the same turn."""

from twinbus.broker.admission import Duplicates
from twinbus.broker.changes import LedgerId, LedgerRange

from .world import NOW, Place


def origin(number: int, source: str = "s", generation: bytes = b"g") -> LedgerRange:
    return LedgerRange(source=source, generation=generation, first=number, last=number)


def test_new_id_is_remembered_for_its_window(place: Place) -> None:
    duplicates, changes = Duplicates(), place.changes
    assert duplicates.is_new(place.queue, b"a", 500, NOW, changes)
    assert not duplicates.is_new(place.queue, b"a", 900, NOW, changes)
    assert changes.ledger_ids == [
        LedgerId(
            fragment_number=place.queue.number, unique_id=b"a", forget_at=NOW + 500
        )
    ]


def test_id_that_the_store_has_is_not_new(place: Place) -> None:
    duplicates = Duplicates()
    duplicates.add(place.queue.number, {b"a"})
    assert not duplicates.is_new(place.queue, b"a", 500, NOW, place.changes)
    assert duplicates.is_new(place.dead_letters, b"a", 500, NOW, place.changes)


def test_restore_is_noted_once(place: Place) -> None:
    duplicates, changes = Duplicates(), place.changes
    assert duplicates.is_first_restore(origin(1), changes)
    assert not duplicates.is_first_restore(origin(1), changes)
    assert changes.ledger_ranges == [origin(1)]


def test_restore_that_the_store_has_is_not_the_first(place: Place) -> None:
    duplicates, changes = Duplicates(), place.changes
    duplicates.add_restored("s", b"g", {1, 2})
    for other in (origin(3), origin(1, "t"), origin(1, generation=b"h")):
        assert duplicates.is_first_restore(other, changes)
    assert not duplicates.is_first_restore(origin(2), changes)
    assert len(changes.ledger_ranges) == 3
