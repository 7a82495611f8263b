"""Which segments a log has, what is missing, and what cannot be used."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.operation_log_writer import LogWriter
from twinbus.spark.jobs.operation_logs import find_logs
from twinbus.spark.jobs.segment_files import DamagedFile, OperationLogError

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def written(folder: Path, segments: int = 3, namespace: str = "site-a") -> list[Path]:
    """A log with one send in each segment; the JSONs of its segments."""
    writer = LogWriter(folder, namespace)
    return [
        writer.write_rows(
            [
                {
                    "occurred_at": AT + timedelta(minutes=number),
                    "operation": "send",
                    "entity": "orders",
                    "message_uid": f"{number:032x}",
                }
            ]
        )
        for number in range(segments)
    ]


def changed(segment: Path, **fields: Any) -> None:
    segment.write_text(json.dumps({**json.loads(segment.read_text()), **fields}))


def file_of(folder: Path, segment: Path) -> Path:
    return folder / json.loads(segment.read_text())["file"]


def test_a_whole_log_has_no_gap(tmp_path: Path) -> None:
    written(tmp_path)
    logs = find_logs([tmp_path])
    assert (logs.rows, logs.gaps, logs.namespaces) == (3, (), ("site-a",))
    assert logs.complete_until() == AT + timedelta(minutes=2)


def test_a_missing_segment_is_a_gap_between_its_neighbours(tmp_path: Path) -> None:
    written(tmp_path)[1].unlink()
    [gap] = find_logs([tmp_path]).gaps
    assert (gap.why, gap.what) == ("missing", "segments 2 to 2")
    assert (gap.since, gap.until) == (AT, AT + timedelta(minutes=2))


def test_a_log_whose_first_segment_is_gone_has_a_gap(tmp_path: Path) -> None:
    written(tmp_path)[0].unlink()
    [gap] = find_logs([tmp_path]).gaps
    assert (gap.what, gap.since) == ("segments 1 to 1", None)


def test_a_missing_file_is_a_gap(tmp_path: Path) -> None:
    segments = written(tmp_path)
    file_of(tmp_path, segments[2]).unlink()
    logs = find_logs([tmp_path])
    assert [(gap.why, gap.since) for gap in logs.gaps] == [
        ("missing", AT + timedelta(minutes=1))
    ]
    assert logs.rows == 2


def test_retention_is_a_gap(tmp_path: Path) -> None:
    segments = written(tmp_path)
    file_of(tmp_path, segments[0]).unlink()
    changed(segments[0], removed_at=AT.isoformat())
    [gap] = find_logs([tmp_path]).gaps
    assert gap.why == "retention"


def test_commits_that_a_segment_does_not_have_are_a_gap(tmp_path: Path) -> None:
    segments = written(tmp_path)
    changed(segments[1], gaps=[{"first_batch": 2, "last_batch": 2, "why": "crash"}])
    [gap] = find_logs([tmp_path]).gaps
    assert (gap.why, gap.what) == ("crash", "commits 2 to 2")


def test_commits_between_two_segments_are_a_gap(tmp_path: Path) -> None:
    segments = written(tmp_path)
    changed(segments[2], first_batch=9, last_batch=9)
    [gap] = find_logs([tmp_path]).gaps
    assert gap.what == "commits 3 to 8"


def test_a_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    file = file_of(tmp_path, written(tmp_path)[1])
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DamagedFile, match=f"{file.name}.*cut short"):
        find_logs([tmp_path])


def test_a_file_that_was_changed_is_refused_or_a_gap(tmp_path: Path) -> None:
    file = file_of(tmp_path, written(tmp_path)[1])
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedFile, match=r"SHA-256.*count as gaps"):
        find_logs([tmp_path])
    logs = find_logs([tmp_path], damaged_is_gap=True)
    assert ([gap.why for gap in logs.gaps], logs.rows) == (["damaged"], 2)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    changed(written(tmp_path)[1], format=3)
    with pytest.raises(OperationLogError, match="its format is 3"):
        find_logs([tmp_path], damaged_is_gap=True)


@pytest.mark.parametrize("content", ["", "[]", '{"format": 2}', '{"format": 2, "kin'])
def test_a_torn_segment_is_refused(content: str, tmp_path: Path) -> None:
    segment = written(tmp_path)[1]
    segment.write_text(content)
    with pytest.raises(OperationLogError, match=segment.name):
        find_logs([tmp_path])


def test_an_empty_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(OperationLogError, match="no operation log"):
        find_logs([tmp_path])
    with pytest.raises(OperationLogError, match="no such folder"):
        find_logs([tmp_path / "nowhere"])


def test_a_file_without_a_segment_is_not_part_of_the_log(tmp_path: Path) -> None:
    written(tmp_path)
    stray = tmp_path / "operations" / "store-x-000000000009.parquet"
    stray.write_bytes(b"half a file")
    assert find_logs([tmp_path]).rows == 3


def test_a_copy_of_a_segment_is_read_once(tmp_path: Path) -> None:
    written(tmp_path)
    assert find_logs([tmp_path, tmp_path]).rows == 3


def test_complete_is_what_every_store_has(tmp_path: Path) -> None:
    written(tmp_path / "a", segments=3)
    written(tmp_path / "b", segments=2, namespace="site-b")
    logs = find_logs([tmp_path / "a", tmp_path / "b"])
    assert logs.complete_until() == AT + timedelta(minutes=1)
    assert logs.complete_until("site-a") == AT + timedelta(minutes=2)
    assert logs.complete_until("site-c") is None
