"""The operation log has few records, which say who did what to which messages."""

import pytest

from twinbus.broker.message import Message
from twinbus.broker.operation_log import (
    COMPLETE,
    DUPLICATE,
    LOCK,
    REFUSE,
    SEND,
    OperationLog,
)
from twinbus.broker.operation_record import decode_operations


def message(row_id: int, raw: bytes = b"abc") -> Message:
    made = Message(raw, 0, 0, 0)
    made.row_id = row_id
    made.enqueued_at = 50
    return made


def test_messages_in_a_row_are_one_run() -> None:
    log = OperationLog()
    for row_id in range(100, 110):
        log.add(SEND, 7, row_id, 3, 50, 60)
    record = decode_operations(log.encode(99))
    assert (record.opened_at, record.sealed_at) == (60, 99)
    [run] = record.runs
    assert (run.operation, run.actor) == (SEND, 7)
    assert (run.first_row_id, run.message_count) == (100, 10)
    assert (run.size_bytes, run.age_ms, run.at) == (30, 100, 60)


@pytest.mark.parametrize(
    "other",
    [
        (COMPLETE, 7, 101, 1, 5, 9),
        (SEND, 8, 101, 1, 5, 9),
        (SEND, 7, 102, 1, 5, 9),
        (SEND, 7, 101, 2, 5, 9),
        (SEND, 7, 101, 1, 6, 9),
        (SEND, 7, 101, 1, 5, 10),
    ],
)
def test_whatever_differs_begins_a_run(
    other: tuple[int, int, int, int, int, int],
) -> None:
    log = OperationLog()
    log.add(SEND, 7, 100, 1, 5, 9)
    log.add(*other)
    runs = decode_operations(log.encode(9)).runs
    assert [
        (r.operation, r.actor, r.first_row_id, r.size_bytes, r.at - r.age_ms, r.at)
        for r in runs
    ] == [(SEND, 7, 100, 1, 5, 9), other]


def test_a_run_of_copies_keeps_their_numbers_at_the_topic() -> None:
    log = OperationLog()
    for number, origin in enumerate([500, 501, 502, 700]):
        copy = message(100 + number)
        copy.body_id = origin
        log.record(LOCK, 7, copy, 60)
    runs = decode_operations(log.encode(99)).runs
    assert [(run.message_count, run.first_origin) for run in runs] == [
        (3, 500),
        (1, 700),
    ]


def test_uids_sessions_counts_and_details_are_kept() -> None:
    log = OperationLog()
    first, second, plain = message(1), message(2), message(3)
    first.uid, second.uid = b"one", b"another"
    for one in (first, second):
        one.session_id = "s\u00e9"
        one.delivery_count = 4
        log.record(COMPLETE, 7, one, 60, log.text("because"))
    log.record(COMPLETE, 7, plain, 60)
    run, last = decode_operations(log.encode(99)).runs
    assert (run.uids, run.session_id) == ([b"one", b"another"], "s\u00e9")
    assert (run.delivery_count, run.reason) == (4, "because")
    assert (last.uids, last.session_id, last.delivery_count) == ([], None, 0)
    assert last.reason is None


def test_message_ids_are_cut_out_of_the_bytes_of_sends() -> None:
    log = OperationLog()
    for number in (1, 2):
        sent = message(number, b"..\xa1\x01%d.." % number)
        sent.id_at, sent.id_end = 2, 5
        log.record(SEND, 7, sent, 60)
        log.record(LOCK, 7, sent, 60)
    record = decode_operations(log.encode(99))
    assert [run.has_ids for run in record.runs] == [True, False, True, False]
    assert record.ids == b"\xa1\x011\xa1\x012"
    assert decode_operations(log.encode(99)) == record, "encoded a second time"


def test_equal_events_are_counted_together() -> None:
    log = OperationLog()
    for actor in (7, 8, 7):
        log.add(SEND, 7, 100, 1, 5, 9)
        log.event(REFUSE, actor, 64, 9, "amqp:not-allowed")
    events = [run for run in decode_operations(log.encode(9)).runs if run.is_event]
    assert [(run.actor, run.message_count, run.reason) for run in events] == [
        (7, 2, "amqp:not-allowed"),
        (8, 1, "amqp:not-allowed"),
    ]


def test_a_duplicate_is_recorded_at_its_entity_without_a_number() -> None:
    log, again = OperationLog(), message(0)
    log.duplicate(7, again, 64, 60)
    [run] = decode_operations(log.encode(9)).runs
    assert (run.operation, run.first_row_id) == (DUPLICATE, 64)
    assert again.row_id == 0


def test_negative_row_ids_and_ages_survive() -> None:
    log = OperationLog()
    log.add(SEND, 7, -(1 << 63), 1, 10, 5)
    [run] = decode_operations(log.encode(1)).runs
    assert (run.first_row_id, run.age_ms) == (-(1 << 63), -5)


def test_log_is_not_empty_with_an_open_or_a_closed_run() -> None:
    log = OperationLog()
    assert log.is_empty()
    log.add(SEND, 7, 1, 1, 1, 1)
    assert not log.is_empty()
    log.add(SEND, 7, 5, 1, 1, 1)
    assert not log.is_empty()


def test_a_deleted_fragment_is_described_at_once() -> None:
    log = OperationLog()
    log.deleted(64, 3, "orders\tqueue\t\t0\tab")
    record = decode_operations(log.encode(9))
    assert record.fragments == {3: "orders\tqueue\t\t0\tab"}
    assert [run.reason for run in record.runs] == ["deleted"]
