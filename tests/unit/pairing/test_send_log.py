"""A send log says what became of each message, and what it does not know."""

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from twinbus.pairing.options import SendAvailabilityPairedNamespaceOptions
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


_SENDER = """
import sys
from pathlib import Path

from twinbus.clock import SystemClock
from twinbus.pairing.send_log import ACCEPTED, SendLog, SentCall

log = SendLog(Path(sys.argv[1]), "site-a", SystemClock(), every_seconds=0.1)
call = SentCall(
    operation="send",
    result=ACCEPTED,
    path="orders",
    began_at=SystemClock().now(),
    took_ms=1,
    send_ids=[b"1"],
    message_ids=["1"],
    session_ids=[None],
)
log.note(call)
sys.stdin.readline()
"""


@pytest.mark.parametrize("is_killed", [True, False])
def test_only_a_process_that_ends_in_order_closes_its_log(
    is_killed: bool, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _SENDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as sender:
        while not segments(tmp_path):
            assert sender.poll() is None
        if is_killed:
            sender.kill()
        else:
            sender.communicate(b"\n")
    assert segments(tmp_path)[0]["rows"] == 1
    assert segments(tmp_path)[-1].get("closed", False) is not is_killed


def test_the_first_file_is_written_sooner_than_the_others(tmp_path: Path) -> None:
    began = time.monotonic()
    log = SendLog(tmp_path, "site-a", ManualClock(), every_seconds=20)
    log.note(call(1))
    while not segments(tmp_path):
        pass
    assert time.monotonic() - began < 20
    log.close()


DAY_MS = 86_400_000


def kept(folder: Path, source: str) -> list[bool]:
    """Of each segment of a source, whether its file is there; its JSON always is."""
    found = [one for one in segments(folder) if one["source"] == source]
    there = [(folder / one["file"]).exists() for one in found]
    assert there == ["removed_at" not in one for one in found]
    return there


def used(folder: Path, clock: ManualClock, namespace: str = "site-a") -> SendLog:
    """The log of a sender that sent twice."""
    log = SendLog(folder, namespace, clock, every_seconds=0.01)
    for number in (1, 2):
        log.note(call(number, began_at=clock.now()))
        while len(segments_of(folder, log.source)) < number:
            pass
    return log


def ended(folder: Path, clock: ManualClock, namespace: str = "site-a") -> str:
    """The same, and closed it. Its source."""
    log = used(folder, clock, namespace)
    log.close()
    return log.source


def segments_of(folder: Path, source: str) -> list[dict[str, Any]]:
    return [one for one in segments(folder) if one["source"] == source]


def test_old_files_are_kept_unless_it_is_asked_for(tmp_path: Path) -> None:
    clock = ManualClock()
    source = ended(tmp_path, clock)
    clock.advance(1_000 * DAY_MS)
    ended(tmp_path, clock)
    assert kept(tmp_path, source) == [True] * 3


def test_old_files_of_senders_that_ended_are_removed(tmp_path: Path) -> None:
    clock = ManualClock()
    old = ended(tmp_path, clock)
    foreign = ended(tmp_path, clock, "site-c")
    running = used(tmp_path, clock)
    clock.advance(2 * DAY_MS)
    young = ended(tmp_path, clock)
    log = SendLog(tmp_path, "site-a", clock, every_seconds=3600, keep_ms=DAY_MS)
    log.close()
    assert kept(tmp_path, old) == [False, False, True]
    # Its own process decides.
    assert kept(tmp_path, running.source) == [True] * 2
    running.close()
    assert kept(tmp_path, young) == kept(tmp_path, foreign) == [True] * 3


def test_old_files_of_a_running_sender_are_removed_once_an_hour(tmp_path: Path) -> None:
    clock = ManualClock()
    log = SendLog(tmp_path, "site-a", clock, every_seconds=0.01, keep_bytes=1)
    for number in (1, 2, 3):
        log.note(call(number, began_at=clock.now()))
        while len(segments(tmp_path)) < number:
            pass
        clock.advance(2 * 3_600_000)
    while kept_now(tmp_path) != [False, False, True]:
        pass
    log.close()


def kept_now(folder: Path) -> list[bool]:
    return ["removed_at" not in one for one in segments(folder)]


def options(**given: Any) -> SendAvailabilityPairedNamespaceOptions:
    return SendAvailabilityPairedNamespaceOptions(object(), object(), **given)


def test_options_say_how_long_files_are_kept() -> None:
    assert (options().send_log_keep_ms, options().send_log_keep_bytes) == (0, 0)
    given = options(send_log_keep=timedelta(days=2), send_log_keep_megabytes=3)
    assert given.send_log_keep_ms == 2 * DAY_MS
    assert given.send_log_keep_bytes == 3 * 1024 * 1024


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("send_log_keep", 0),
        ("send_log_keep", "30d"),
        ("send_log_keep_megabytes", -1),
        ("send_log_keep_megabytes", 0.5),
    ],
)
def test_wrong_limits_of_files_are_refused(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{option} is"):
        options(**{option: value})


def test_files_that_cannot_be_removed_do_not_end_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    ended(tmp_path, clock)
    [first, *_] = sorted((tmp_path / "segments").glob("*.json"))
    first.write_text("{")
    log = SendLog(tmp_path, "site-a", clock, every_seconds=3600, keep_ms=1)
    log.note(call(1))
    log.close()
    assert "old files of the send log cannot be removed" in caplog.text
    first.unlink()
    assert segments_of(tmp_path, log.source)[-1]["closed"]


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
