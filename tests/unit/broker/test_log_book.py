"""A reader of the log learns who acted where, from any block on."""

from twinbus.broker.log_book import BLOCK_SHIFT, LogBook, actor_text
from twinbus.broker.operation_log import LOCK, SEND, OperationLog
from twinbus.broker.operation_record import OperationRecord, decode_operations

from .world import Place

SHOP = actor_text("10.0.0.1:5", "send orders", "shop-key")


def written(book: LogBook, place: Place, actor: int, batch: int) -> OperationRecord:
    log = OperationLog()
    log.add(SEND, actor, place.queue.base + batch, 1, 1, 1)
    book.write(log, 4, batch, place.table)
    book.committed(log, batch, 12)
    return decode_operations(log.encode(9))


def test_actors_and_fragments_are_described_once_in_a_block() -> None:
    book, place = LogBook(), Place()
    actor = book.introduce(SHOP)
    first, second = (written(book, place, actor, batch) for batch in (1, 2))
    assert first.actors == {actor: SHOP}
    assert list(first.fragments) == [place.queue.number]
    assert first.fragments[place.queue.number] == f"orders\tqueue\t\t0\t{'67' * 16}"
    assert (second.actors, second.fragments) == ({}, {})
    again = written(book, place, actor, 1 << BLOCK_SHIFT)
    assert (again.actors, list(again.fragments)) == (
        {actor: SHOP},
        [place.queue.number],
    )


def test_a_blob_names_the_one_before() -> None:
    book, place = LogBook(), Place()
    actor = book.introduce(SHOP)
    first, second = (written(book, place, actor, batch) for batch in (3, 5))
    assert (first.previous, second.previous) == (0, 3)
    assert (second.previous_ms, second.epoch) == (12, 4)
    book.begin()
    assert written(book, place, actor, 6).previous == 0


def test_after_a_failed_commit_everything_is_described_again() -> None:
    book, place = LogBook(), Place()
    actor = book.introduce(SHOP)
    written(book, place, actor, 1)
    book.forget()
    assert written(book, place, actor, 2).actors == {actor: SHOP}


def test_who_was_dismissed_is_described_for_what_it_still_did() -> None:
    book, place = LogBook(), Place()
    actor = book.introduce(SHOP)
    book.dismiss(actor)
    assert written(book, place, actor, 1).actors == {actor: SHOP}
    assert book.actor_count() == 0


def test_a_log_without_operations_stays_empty() -> None:
    book, place, log = LogBook(), Place(), OperationLog()
    book.write(log, 4, 1, place.table)
    assert log.is_empty()
    log.add(LOCK, 0, place.queue.base + 1, 1, 1, 1)
    book.write(log, 4, 1, place.table)
    assert log.actors == []
