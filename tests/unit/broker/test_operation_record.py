"""Blobs of the operation log are read, in this format and in the one before."""

import struct

import pytest

from twinbus.broker.operation_log import SEND, OperationLog
from twinbus.broker.operation_record import decode_operations


def test_blobs_of_format_1_are_read() -> None:
    text = "10.0.0.1:5 send \u00e9".encode()
    blob = struct.pack("<BqqII", 1, 60, 99, 1, 1)
    blob += struct.pack("<qI", 7, len(text)) + text
    blob += struct.pack("<6q", SEND, 7, 100, 10, 30, 100)
    record = decode_operations(blob)
    assert (record.format, record.opened_at, record.sealed_at) == (1, 60, 99)
    assert record.actors == {7: "10.0.0.1:5 send \u00e9"}
    [run] = record.runs
    assert (run.operation, run.first_row_id, run.message_count) == (SEND, 100, 10)
    assert (run.size_bytes, run.age_ms, run.at) == (30, 100, 0)


def test_head_says_what_came_before() -> None:
    log = OperationLog()
    log.epoch, log.previous, log.previous_ms, log.is_last = 3, 41, 5, True
    record = decode_operations(log.encode(9))
    assert (record.format, record.epoch, record.is_last) == (2, 3, True)
    assert (record.previous, record.previous_ms, record.opened_at) == (41, 5, 9)


def test_blobs_of_another_format_are_refused() -> None:
    blob = bytearray(OperationLog().encode(1))
    blob[0] = 3
    with pytest.raises(ValueError, match="format 3, this bus reads up to 2"):
        decode_operations(bytes(blob))


def test_a_blob_that_was_cut_is_refused() -> None:
    log = OperationLog()
    log.add(SEND, 7, 100, 1, 5, 9)
    blob = log.encode(9)
    with pytest.raises((ValueError, struct.error)):
        decode_operations(blob[:-1])
    with pytest.raises(ValueError, match="another length"):
        decode_operations(blob + b"x")
