"""The operation log has few records, which say who did what to which messages."""

import pytest

from twinbus.broker.operation_log import (
    COMPLETE,
    SEND,
    OperationLog,
    OperationRun,
    decode_operations,
)


def test_messages_in_a_row_are_one_run() -> None:
    log = OperationLog()
    for row_id in range(100, 110):
        log.add(SEND, 7, row_id, 3, 50, 60)
    record = decode_operations(log.encode(99))
    assert (record.opened_at, record.sealed_at) == (60, 99)
    assert record.runs == [
        OperationRun(
            operation=SEND,
            actor=7,
            first_row_id=100,
            message_count=10,
            size_bytes=30,
            age_ms=100,
        )
    ]


@pytest.mark.parametrize("other", [(COMPLETE, 7, 101), (SEND, 8, 101), (SEND, 7, 102)])
def test_another_operation_actor_or_row_begins_a_run(
    other: tuple[int, int, int],
) -> None:
    log = OperationLog()
    log.add(SEND, 7, 100, 1, 5, 5)
    log.add(*other, 1, 5, 5)
    runs = decode_operations(log.encode(9)).runs
    assert [(run.operation, run.actor, run.first_row_id) for run in runs] == [
        (SEND, 7, 100),
        other,
    ]


def test_actors_are_introduced_by_their_description() -> None:
    log = OperationLog()
    assert log.is_empty()
    log.introduce(7, "10.0.0.1:5 send \u00e9")
    assert not log.is_empty()
    record = decode_operations(log.encode(9))
    assert (record.actors, record.runs) == ({7: "10.0.0.1:5 send \u00e9"}, [])
    assert record.opened_at == 9


def test_introductions_of_a_failed_commit_are_made_again() -> None:
    failed, log = OperationLog(), OperationLog()
    failed.introduce(7, "seven")
    failed.add(SEND, 7, 1, 1, 1, 1)
    log.introduce_those_of(failed)
    assert decode_operations(log.encode(1)).actors == {7: "seven"}
    assert decode_operations(log.encode(1)).runs == []


def test_negative_row_ids_and_ages_survive() -> None:
    log = OperationLog()
    log.add(SEND, 7, -(1 << 63), 1, 10, 5)
    [run] = decode_operations(log.encode(1)).runs
    assert (run.first_row_id, run.age_ms) == (-(1 << 63), -5)


def test_blobs_of_another_format_are_refused() -> None:
    blob = bytearray(OperationLog().encode(1))
    blob[0] = 2
    with pytest.raises(ValueError, match="format 2, this bus reads 1"):
        decode_operations(bytes(blob))


def test_log_is_not_empty_with_an_open_or_a_closed_run() -> None:
    log = OperationLog()
    log.add(SEND, 7, 1, 1, 1, 1)
    assert not log.is_empty()
    log.add(SEND, 7, 5, 1, 1, 1)
    assert not log.is_empty()
