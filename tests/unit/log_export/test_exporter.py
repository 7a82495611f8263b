"""Each operation is exported once, and what is missing is said."""

import hashlib
import os
import struct
from pathlib import Path

import pytest

from twinbus.broker.operation_log import SEND
from twinbus.log_export.exporter import Exporter
from twinbus.log_files import segment_folder
from twinbus.store.export_position import exported_through

from .world import LoggedBus


@pytest.fixture
def bus(tmp_path: Path) -> LoggedBus:
    return LoggedBus(tmp_path)


def numbers(bus: LoggedBus) -> list[int]:
    return [row["sequence_number"] for row in bus.rows() if row["operation"] == "send"]


async def test_rows_say_who_did_what_where(bus: LoggedBus) -> None:
    await bus.start()
    await bus.send(2)
    await bus.stop()
    bus.export()
    created, first, second = bus.rows()
    assert (created["operation"], created["reason"]) == ("administration", "created")
    assert (first["operation"], first["result"]) == ("send", "ok")
    assert (first["entity"], first["entity_kind"]) == ("orders", "queue")
    assert (first["namespace"], first["generation"]) == ("site-a", "67" * 16)
    assert (first["client"], first["purpose"]) == ("10.0.0.1:5", "send")
    assert (first["key_name"], first["message_id"]) == ("shop-key", "id")
    assert (first["sequence_number"], second["sequence_number"]) == (1, 2)
    assert first["message_uid"] != second["message_uid"]
    assert len(first["message_uid"]) == 48
    assert first["latency_ms"] is not None, "the last blob of a stop follows"
    places = [(row["batch"], row["position"]) for row in (first, second)]
    assert places == [(2, 0), (2, 1)]


async def test_segments_are_numbered_checksummed_and_adjoin(bus: LoggedBus) -> None:
    await bus.start()
    for _ in range(3):
        await bus.send(2)
        bus.export()
    await bus.stop()
    bus.export()
    segments = bus.segments()
    assert [one["number"] for one in segments] == [1, 2, 3]
    for before, after in zip([None, *segments], segments, strict=False):
        last = 0 if before is None else before["last_batch"]
        assert after["first_batch"] == last + 1
        assert after["gaps"] == []
        content = (bus.folder / after["file"]).read_bytes()
        assert after["sha256"] == hashlib.sha256(content).hexdigest()
        assert after["bytes"] == len(content)
    assert numbers(bus) == [1, 2, 3, 4, 5, 6]


async def test_the_last_blob_waits_until_it_is_surely_on_disk(bus: LoggedBus) -> None:
    await bus.start()
    await bus.send()
    exporter = bus.exporter()
    assert not exporter.take()
    exporter.write()
    assert numbers(bus) == []
    bus.clock.advance(3_000)
    exporter.take()
    exporter.write()
    assert numbers(bus) == [1]
    exporter.close()
    await bus.stop()


async def test_actors_are_known_when_an_export_goes_on(bus: LoggedBus) -> None:
    await bus.start()
    await bus.send(commits=3)
    bus.export()
    await bus.send(commits=300)
    bus.export(segment_rows=100)
    await bus.stop()
    bus.export()
    sent = [row for row in bus.rows() if row["operation"] == "send"]
    assert [row["sequence_number"] for row in sent] == list(range(1, 304))
    assert {(row["key_name"], row["entity"]) for row in sent} == {
        ("shop-key", "orders")
    }


def export_and_die(bus: LoggedBus, point: int) -> int:
    """Export in a process that dies before a file gets its name, or right after.
    Returns its exit code."""
    write, steps = segment_folder.write_durably, iter(range(100))

    def dying(file: Path, content: bytes) -> None:
        if next(steps) == point:
            file.parent.mkdir(parents=True, exist_ok=True)
            (file.parent / f"{file.name}.part-half").write_bytes(content[:10])
            os._exit(9)
        write(file, content)
        if next(steps) == point:
            os._exit(9)

    child = os.fork()
    if child == 0:
        segment_folder.write_durably = dying
        bus.export(segment_rows=4)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("point", range(8))
async def test_no_row_is_lost_or_written_twice_by_a_kill(
    bus: LoggedBus, point: int
) -> None:
    await bus.start()
    await bus.send(3, commits=4)
    await bus.stop()
    assert export_and_die(bus, point) == 9
    bus.export(segment_rows=4)
    assert numbers(bus) == list(range(1, 13))
    files = {str(file) for file in bus.folder.rglob("*.parquet*")}
    assert files == {str(bus.folder / one["file"]) for one in bus.segments()}


async def test_an_unclean_end_is_a_gap(bus: LoggedBus) -> None:
    await bus.start()
    await bus.send()
    await bus.owner.store.close()
    killed = bus.owner
    await bus.start()
    await bus.send()
    await bus.stop()
    bus.export()
    [segment] = bus.segments()
    assert [gap["why"] for gap in segment["gaps"]] == ["crash"]
    [gap] = segment["gaps"]
    assert (gap["first_batch"], gap["last_batch"]) == (2, 3)
    del killed


async def test_what_was_trimmed_before_it_was_exported_is_a_gap(
    bus: LoggedBus,
) -> None:
    await bus.start()
    await bus.send(commits=2)
    bus.export()
    await bus.send(commits=600)
    # As if nobody had noted how far the export is.
    bus.file.with_name("messages.sqlite3.exported").unlink()
    await bus.owner.store.trim(operations_through=500, now=0)
    await bus.send()
    bus.export()
    await bus.stop()
    gaps = [gap for one in bus.segments() for gap in one["gaps"]]
    assert gaps == [{"first_batch": 4, "last_batch": 500, "why": "retention"}]


async def test_a_damaged_blob_is_a_gap_and_the_export_goes_on(bus: LoggedBus) -> None:
    await bus.start()
    await bus.send(commits=3)
    db = bus.owner.store._file.db  # type: ignore[attr-defined]
    db.execute("UPDATE operation_log SET operations = x'02ff' WHERE batch = 3")
    await bus.stop()
    bus.export()
    gaps = [gap for one in bus.segments() for gap in one["gaps"]]
    assert {"first_batch": 3, "last_batch": 3, "why": "unreadable"} in gaps
    assert numbers(bus) == [1, 3]


async def test_a_log_that_begins_in_format_1_is_exported_whole(
    bus: LoggedBus,
) -> None:
    await bus.start()
    await bus.send(commits=2)
    text = b"10.0.0.1:5 send orders"
    blob = struct.pack("<BqqII", 1, 60, 99, 1, 1)
    blob += struct.pack("<qI", 7, len(text)) + text
    blob += struct.pack("<6q", SEND, 7, bus.queue.base + 1, 1, 30, 0)
    db = bus.owner.store._file.db  # type: ignore[attr-defined]
    query = "UPDATE operation_log SET operations = ? WHERE batch <= 2"
    db.execute(query, (blob,))
    await bus.stop()
    bus.export()
    assert numbers(bus) == [1, 1, 2]
    assert [gap for one in bus.segments() for gap in one["gaps"]] == []
    assert bus.rows()[0]["client"] == "10.0.0.1:5"


async def test_the_store_is_told_what_is_synced(bus: LoggedBus) -> None:
    await bus.start()
    await bus.send()
    assert exported_through(bus.file) is None
    bus.export()
    assert exported_through(bus.file) == 2
    await bus.stop()


async def test_a_store_is_exported_by_one_process_at_a_time(bus: LoggedBus) -> None:
    await bus.start()
    first = bus.exporter()
    second = Exporter(first._source, first._plan, bus.clock)
    assert not second.open()
    first.close()
    await bus.stop()
    bus.exporter().close()


async def test_old_files_are_removed_and_remembered(bus: LoggedBus) -> None:
    await bus.start()
    for _ in range(3):
        await bus.send()
        bus.export()
        bus.clock.advance(3_600_000)
    exporter = bus.exporter(keep_ms=9_000_000)
    exporter.retain()
    exporter.close()
    kept = ["removed_at" not in one for one in bus.segments()]
    assert kept == [False, True, True]
    for one, is_kept in zip(bus.segments(), kept, strict=True):
        assert (bus.folder / one["file"]).exists() == is_kept
    await bus.stop()
