"""Rows say what blobs say, and no more."""

import struct
from typing import Any

import pytest

from twinbus.broker.log_book import actor_text
from twinbus.broker.message import Message, uid_of
from twinbus.broker.operation_log import (
    ARRIVE,
    COMPLETE,
    PEEK,
    RECEIVE_EMPTY,
    REFUSE,
    SEND,
    THE_BUS,
    OperationLog,
)
from twinbus.broker.operation_record import decode_operations
from twinbus.broker.row_id import base_of
from twinbus.log_export.row_maker import RowMaker, block_start
from twinbus.log_files.columns import empty_columns

STORE = bytes(range(16))


def rows_of(blob: bytes, took_ms: int | None = None) -> list[dict[str, Any]]:
    columns = empty_columns()
    maker = RowMaker("store-x", STORE, "site-a")
    count = maker.append(5, decode_operations(blob), took_ms, columns)
    values = zip(*columns.values(), strict=True)
    found = [dict(zip(columns, row, strict=True)) for row in values]
    assert len(found) == count
    return found


def described(number: int, index: int = 0, sub_queue: str = "") -> OperationLog:
    log = OperationLog()
    text = f"orders\tqueue\t{sub_queue}\t{index}\tabcd"
    log.fragments.append((number, text.encode()))
    text = actor_text("10.0.0.1:5", "receive orders", "shop")
    log.actors.append((7, text.encode()))
    return log


def message(row_id: int) -> Message:
    made = Message(b"abc", 0, 0, 0)
    made.row_id, made.enqueued_at = row_id, 50
    return made


def test_numbers_are_those_that_clients_see() -> None:
    log = described(3, index=2)
    for number in (8, 9):
        log.record(COMPLETE, 7, message(base_of(3) + number), 60)
    first, second = rows_of(log.encode(70), took_ms=4)
    assert first["sequence_number"] == (2 << 48) + 8
    assert second["sequence_number"] == (2 << 48) + 9
    assert (first["fragment"], first["generation"]) == (2, "abcd")
    assert (first["age_ms"], first["size_bytes"], first["latency_ms"]) == (10, 3, 14.0)
    assert (first["key_name"], first["purpose"]) == ("shop", "receive")
    assert first["occurred_at"] == 60_000


@pytest.mark.parametrize(
    "text",
    [
        actor_text("", "bulk spark-capture/ab", "lake"),
        # By way of another broker.
        "bulk spark-capture/ab for lake",
    ],
)
def test_what_is_settled_in_bulk_names_its_reader(text: str) -> None:
    log = described(3)
    log.actors.append((8, text.encode()))
    log.record(COMPLETE, 8, message(base_of(3) + 8), 60)
    [row] = rows_of(log.encode(70))
    assert (row["client"], row["purpose"]) == ("spark-capture/ab", "bulk")
    assert row["key_name"] == "lake"


def test_what_is_appended_in_bulk_has_no_reader() -> None:
    log = described(3)
    log.actors.append((8, actor_text("", "bulk append", "shop").encode()))
    log.record(SEND, 8, message(base_of(3) + 8), 60)
    [row] = rows_of(log.encode(70))
    assert (row["client"], row["purpose"]) == (None, "bulk")


def test_a_message_is_called_the_same_in_all_its_places() -> None:
    sent = message(base_of(3) + 8)
    copy, dead = message(base_of(4) + 1), message(base_of(5) + 1)
    copy.body_id = sent.row_id
    dead.uid = uid_of(copy, STORE)
    log = described(3)
    log.record(SEND, 7, sent, 60)
    log.record(ARRIVE, THE_BUS, copy, 60)
    log.record(ARRIVE, THE_BUS, dead, 60)
    rows = rows_of(log.encode(70))
    assert {row["message_uid"] for row in rows} == {uid_of(sent, STORE).hex()}
    assert [row["key_name"] for row in rows] == ["shop", None, None]


def test_events_have_an_amount_and_no_message() -> None:
    log = described(3, sub_queue="$deadletterqueue")
    base = base_of(3)
    for _ in range(3):
        log.event(RECEIVE_EMPTY, 7, base, 60)
    log.event(REFUSE, 7, base, 0, "amqp:not-allowed")
    log.event(PEEK, 7, base, 60)
    empty, refused, peeked = rows_of(log.encode(70))
    assert (empty["operation"], empty["result"]) == ("receive_empty", "empty")
    assert (empty["amount"], empty["subqueue"]) == (3, "$deadletterqueue")
    assert (refused["result"], refused["reason"]) == ("refused", "amqp:not-allowed")
    assert (refused["amount"], refused["occurred_at"]) == (None, 70_000)
    assert (peeked["operation"], peeked["result"]) == ("peek", "empty")
    for row in (empty, refused, peeked):
        assert row["message_uid"] is None and row["sequence_number"] is None


def test_message_ids_of_any_type_are_texts() -> None:
    log = described(3)
    for number, encoded in enumerate([b"\xa1\x02id", b"\x53\x07", b"\xa0\x01\xff"], 1):
        sent = message(base_of(3) + number)
        sent.raw, sent.id_at, sent.id_end = encoded, 0, len(encoded)
        log.record(SEND, 7, sent, 50)
    assert [row["message_id"] for row in rows_of(log.encode(70))] == ["id", "7", "ff"]


def test_blobs_of_format_1_have_what_they_say() -> None:
    text = b"10.0.0.1:5 send orders"
    blob = struct.pack("<BqqII", 1, 60, 99, 1, 1)
    blob += struct.pack("<qI", 7, len(text)) + text
    blob += struct.pack("<6q", SEND, 7, base_of(3) + 8, 2, 30, 0)
    first, second = rows_of(blob)
    assert (first["operation"], first["entity"]) == ("send", None)
    assert (first["client"], first["purpose"]) == ("10.0.0.1:5", "send")
    assert (first["size_bytes"], first["occurred_at"]) == (15, 99_000)
    assert (first["sequence_number"], second["sequence_number"]) == (8, 9)
    assert first["latency_ms"] is None and first["message_id"] is None


def test_blocks_begin_at_multiples() -> None:
    assert [block_start(batch) for batch in (0, 255, 256, 700)] == [0, 0, 256, 512]
