"""A send log says what became of each message, and what it does not know."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet

from twinbus.pairing.send_log import ACCEPTED, UNKNOWN, SendLog, SentCall
from twinbus.testing import ManualClock


def call(number: int, count: int = 1, **said: Any) -> SentCall:
    given: dict[str, Any] = {
        "operation": "send",
        "result": ACCEPTED,
        "path": "orders",
        "began_at": 1_800_000_000_000 + number,
        "took_ms": 7,
        "send_ids": [b"%d-%d" % (number, i) for i in range(count)],
        "message_ids": [f"id-{number}-{i}" for i in range(count)],
        "session_ids": [None] * count,
    }
    return SentCall(**{**given, **said})


def segments(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "segments").glob("sender-*.json"))
    return [json.loads(file.read_text()) for file in files]


def rows(folder: Path) -> list[dict[str, Any]]:
    found = []
    for one in segments(folder):
        found += pyarrow.parquet.ParquetFile(folder / one["file"]).read().to_pylist()
    return found


def test_each_message_of_a_call_is_a_row(tmp_path: Path) -> None:
    log = SendLog(tmp_path, "site-a", ManualClock(), every_seconds=3600)
    log.note(call(1, 2))
    log.note(call(2, operation="divert", destination="site-a/transfer/0"))
    log.note(call(3, result=UNKNOWN, reason="no answer in time"))
    log.close()
    found = rows(tmp_path)
    assert [(row["batch"], row["position"]) for row in found] == [
        *((1, 0), (1, 1)),
        *((2, 0), (3, 0)),
    ]
    assert found[0]["message_uid"] == b"1-0".hex()
    assert found[0]["message_id"] == "id-1-0"
    assert (found[2]["operation"], found[2]["destination"]) == (
        "divert",
        "site-a/transfer/0",
    )
    assert (found[3]["result"], found[3]["reason"]) == ("unknown", "no answer in time")
    assert {row["source"] for row in found} == {log.source}
    [segment] = segments(tmp_path)
    assert (segment["kind"], segment["namespace"]) == ("sender", "site-a")
    assert segment["closed"]


def test_the_last_file_says_so_even_if_it_is_empty(tmp_path: Path) -> None:
    log = SendLog(tmp_path, "site-a", ManualClock(), every_seconds=0.01)
    log.note(call(1))
    while not segments(tmp_path):
        pass
    log.close()
    assert [one.get("closed", False) for one in segments(tmp_path)] == [False, True]
    assert [one["rows"] for one in segments(tmp_path)] == [1, 0]


def test_nothing_is_written_if_nothing_was_sent(tmp_path: Path) -> None:
    SendLog(tmp_path, "site-a", ManualClock(), every_seconds=3600).close()
    assert segments(tmp_path) == []


def test_a_sender_with_nothing_to_send_says_that_it_is_there(tmp_path: Path) -> None:
    clock = ManualClock()
    log = SendLog(tmp_path, "site-a", clock, every_seconds=0.05)
    log.note(call(1, began_at=clock.now()))
    while not segments(tmp_path):
        pass
    clock.advance(60_000)
    later = datetime.fromtimestamp(clock.now() / 1000, UTC)
    while segments(tmp_path)[0]["complete_until"] != later.isoformat():
        pass
    [segment] = segments(tmp_path)
    assert (segment["rows"], segment.get("closed", False)) == (1, False)
    log.close()
    assert segments(tmp_path)[-1]["closed"]


def test_the_first_file_is_written_sooner_than_the_others(tmp_path: Path) -> None:
    began = time.monotonic()
    log = SendLog(tmp_path, "site-a", ManualClock(), every_seconds=20)
    log.note(call(1))
    while not segments(tmp_path):
        pass
    assert time.monotonic() - began < 20
    log.close()


def test_what_does_not_fit_into_memory_is_a_gap(tmp_path: Path) -> None:
    log = SendLog(
        tmp_path, "site-a", ManualClock(), every_seconds=3600, waiting_messages=2
    )
    for number in range(1, 5):
        log.note(call(number))
    log.close()
    assert [row["batch"] for row in rows(tmp_path)] == [1, 2]
    [segment] = segments(tmp_path)
    assert segment["last_batch"] == 4
    assert segment["gaps"] == [{"first_batch": 3, "last_batch": 4, "why": "overflow"}]
