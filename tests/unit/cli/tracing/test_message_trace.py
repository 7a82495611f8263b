"""A message is followed by its uid, through all folders."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.tracing.exported_log import ExportedLog
from twinbus.cli.tracing.message_trace import traced
from twinbus.cli.tracing.trace_view import print_trace, trace_lines

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        *(("source", pa.string()), ("batch", pa.int64()), ("position", pa.int32())),
        ("occurred_at", pa.timestamp("us", "UTC")),
        *((name, pa.string()) for name in ("operation", "result", "namespace")),
        *((name, pa.string()) for name in ("entity", "subqueue", "message_uid")),
        *((name, pa.string()) for name in ("message_id", "reason", "key_name")),
        ("sequence_number", pa.int64()),
    ]
)


def write(folder: Path, source: str, number: int, rows: list[dict[str, Any]]) -> None:
    for position, row in enumerate(rows):
        row |= {"source": source, "batch": number, "position": position}
        row["occurred_at"] = START + timedelta(seconds=row.pop("at"))
        row.setdefault("result", "ok")
    file = folder / "operations" / "date=2026-01-01" / "hour=12"
    file.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows, SCHEMA)
    pq.write_table(table, file / f"{source}-{number:012d}.parquet")
    segments = folder / "segments"
    segments.mkdir(exist_ok=True)
    told = {"source": source, "number": number, "gaps": []}
    (segments / f"{source}-{number:012d}.json").write_text(json.dumps(told))


def row(at: float, operation: str, uid: str, **more: Any) -> dict[str, Any]:
    return {"at": at, "operation": operation, "message_uid": uid, **more}


def logs(folders: list[Path]) -> list[ExportedLog]:
    return [ExportedLog(folder) for folder in folders]


@pytest.fixture
def sites(tmp_path: Path) -> list[Path]:
    first, second = tmp_path / "a", tmp_path / "b"
    orders = {"entity": "orders", "namespace": "site-a", "sequence_number": 7}
    dead = {**orders, "subqueue": "$deadletterqueue", "reason": "Impossible"}
    write(
        first,
        "store-1",
        1,
        [
            row(1, "send", "u1", message_id="tea-1", key_name="root", **orders),
            row(1, "send", "u2", message_id="tea-2", key_name="root", **orders),
            row(2, "lock", "u1", **orders),
        ],
    )
    write(first, "store-1", 3, [row(3, "dead_letter", "u1", **orders)])
    write(first, "store-2", 1, [row(3.5, "arrive", "u1", **dead)])
    write(
        second,
        "store-9",
        1,
        [row(0.5, "divert", "u1", entity="orders", namespace="site-b")],
    )
    return [first, second]


def test_message_is_followed_through_stores_and_sites(sites: list[Path]) -> None:
    found = traced("tea-1", logs(sites))
    assert found.uids == ["u1"]
    assert [(one["operation"], one["namespace"]) for one in found.events] == [
        ("divert", "site-b"),
        ("send", "site-a"),
        ("lock", "site-a"),
        ("dead_letter", "site-a"),
        ("arrive", "site-a"),
    ]
    assert found.events[0]["occurred_at"] == "2026-01-01T12:00:00.500+00:00"
    assert traced("U1", logs(sites)).events == found.events


def test_what_the_logs_lack_is_told(sites: list[Path]) -> None:
    assert traced("tea-1", logs(sites)).gaps == [
        {"source": "store-1", "why": "missing", "number": 2}
    ]
    (sites[1] / "segments" / "store-9-000000000001.json").write_text("?")
    gaps = traced("tea-1", logs(sites)).gaps
    assert {"source": "store-9-000000000001", "why": "unreadable"} in gaps


def test_people_see_where_and_why(
    sites: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    print_trace(traced("tea-1", logs(sites)))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 5 + 1
    assert "site-a: orders/$deadletterqueue" in lines[5]
    assert "reason Impossible" in lines[5]
    assert "store-1 has a gap: missing" in lines[6]


def test_narrow_terminal_gets_a_list_that_breaks_no_name(sites: list[Path]) -> None:
    found = traced("tea-1", logs(sites))
    lines = [line.plain for line in trace_lines(found, 60)]
    assert lines[:4] == [
        "time (UTC)               operation    where",
        "2026-01-01 12:00:00.500  divert       site-b: orders",
        "2026-01-01 12:00:01.000  send         site-a: orders #7",
        "    by root",
    ]
    assert lines[-4:] == [
        "2026-01-01 12:00:03.000  dead_letter  site-a: orders #7",
        "2026-01-01 12:00:03.500  arrive",
        "    site-a: orders/$deadletterqueue #7",
        "    reason Impossible",
    ]


def test_only_namespace_is_not_repeated(sites: list[Path]) -> None:
    shown = [line.plain for line in trace_lines(traced("tea-1", logs(sites[:1])), 200)]
    assert not any("site-a" in line for line in shown)


def test_unknown_message_has_no_events(sites: list[Path]) -> None:
    assert traced("nobody", logs(sites)).events == []


def test_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="has no exported operation log") as refused:
        logs([tmp_path])
    assert refused.value.exit_code == exit_codes.NOT_FOUND
