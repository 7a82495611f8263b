"""Segments count when they are whole, and say what is missing."""

import json
from pathlib import Path

import pytest

from twinbus.log_files.columns import Columns, append_rows, empty_columns
from twinbus.log_files.segment_folder import Gap, SegmentFolder, write_durably

HOUR_MS = 3_600_000
START_MS = 1_800_000_000_000


def opened(folder: Path) -> SegmentFolder:
    made = SegmentFolder(folder, "store-ab", "store", "site-a")
    assert made.open()
    return made


def one_row(at_ms: int) -> Columns:
    rows = empty_columns()
    given = {"source": "s", "batch": 1, "position": 0, "occurred_at": at_ms * 1000}
    append_rows(rows, 1, {**given, "operation": "send", "result": "ok"})
    return rows


def write(segments: SegmentFolder, batch: int, at_ms: int) -> None:
    segments.write(
        one_row(at_ms), last_batch=batch, gaps=[], complete_until=at_ms, now=at_ms
    )


def test_who_comes_later_goes_on_behind_the_last_segment(tmp_path: Path) -> None:
    first = opened(tmp_path)
    write(first, 7, START_MS)
    first.close()
    second = opened(tmp_path)
    assert (second.number, second.last_batch) == (1, 7)
    second.close()


def test_files_are_by_hour_and_described(tmp_path: Path) -> None:
    segments = opened(tmp_path)
    gap = Gap(first_batch=2, last_batch=3, why="crash")
    segments.write(
        one_row(START_MS), last_batch=9, gaps=[gap], complete_until=START_MS, now=1
    )
    segments.close()
    [one] = segments.descriptions()
    assert one["file"] == (
        "operations/date=2027-01-15/hour=08/store-ab-000000000001.parquet"
    )
    assert one["first_occurred_at"] == "2027-01-15T08:00:00+00:00"
    assert one["gaps"] == [{"first_batch": 2, "last_batch": 3, "why": "crash"}]
    assert (one["format"], one["rows"], one["namespace"]) == (2, 1, "site-a")


def test_one_process_writes_a_source(tmp_path: Path) -> None:
    first = opened(tmp_path)
    assert not SegmentFolder(tmp_path, "store-ab", "store", "").open()
    other = SegmentFolder(tmp_path, "store-cd", "store", "")
    assert other.open()
    other.close()
    first.close()
    opened(tmp_path).close()


def test_the_last_segment_may_say_that_nothing_came_since(tmp_path: Path) -> None:
    segments = opened(tmp_path)
    segments.extend(START_MS)
    assert segments.descriptions() == []
    write(segments, 1, START_MS)
    [before] = segments.descriptions()
    segments.extend(START_MS - 1)
    assert segments.descriptions() == [before]
    segments.extend(START_MS + HOUR_MS)
    [after] = segments.descriptions()
    assert after == {**before, "complete_until": "2027-01-15T09:00:00+00:00"}
    segments.close()


def test_retention_by_size_keeps_the_last_file(tmp_path: Path) -> None:
    segments = opened(tmp_path)
    for number in (1, 2, 3):
        write(segments, number, START_MS + number * HOUR_MS)
    removed = segments.retain(keep_ms=0, keep_bytes=1, now=START_MS)
    segments.close()
    assert removed == 2
    kept = ["removed_at" not in one for one in segments.descriptions()]
    assert kept == [False, False, True]
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_a_damaged_description_is_said_plainly(tmp_path: Path) -> None:
    segments = opened(tmp_path)
    write(segments, 1, START_MS)
    segments.close()
    [file] = (tmp_path / "segments").glob("*.json")
    file.write_text('{"number"')
    again = SegmentFolder(tmp_path, "store-ab", "store", "")
    with pytest.raises(ValueError, match=r"is damaged .* another folder"):
        again.open()
    again.close()


def test_a_file_that_is_written_again_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file.json"
    write_durably(file, b"first")
    write_durably(file, json.dumps({"second": 2}).encode())
    assert json.loads(file.read_text()) == {"second": 2}
    assert [one.name for one in file.parent.iterdir()] == ["file.json"]
