"""The operation logs tell what a syphon did, and how often it looked for nothing."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from twinbus.clock import SystemClock
from twinbus.log_export.blob_source import SqliteBlobs
from twinbus.log_export.export_run import ExportRun
from twinbus.log_export.exporter import ExportPlan
from twinbus.pairing.events import EventKind
from twinbus.testing import Bus

from .syphon_world import (
    BACKLOG,
    QUICK,
    Events,
    Make,
    SdkSyphon,
    bodies,
    diverted,
    own_syphon,
    put,
    running,
    until,
)

POLLING = replace(QUICK, poll_ms=200)
COUNT = 5


@contextmanager
def two_sites() -> Iterator[tuple[Bus, Bus]]:
    with Bus() as primary, Bus(tls=True) as secondary:
        primary.create_queue("orders")
        secondary.create_queue(BACKLOG)
        yield primary, secondary


def logged(bus: Bus, folder: Path) -> list[dict[str, Any]]:
    """All rows of a bus, which ends."""
    bus.stop()
    sources = [SqliteBlobs(bus.folder / "messages.sqlite3")]
    run = ExportRun(sources, ExportPlan(folder=folder), SystemClock())
    run.once(lambda name, counts: None, time.sleep)
    rows = []
    for file in sorted((folder / "segments").glob("*.json")):
        path = folder / json.loads(file.read_text())["file"]
        rows += pyarrow.parquet.ParquetFile(path).read().to_pylist()
    return rows


def operations(rows: list[dict[str, Any]], purpose: str) -> Counter[str]:
    return Counter(row["operation"] for row in rows if row["purpose"] == purpose)


@pytest.mark.parametrize("make", [own_syphon, SdkSyphon])
async def test_what_a_syphon_does_has_its_purpose(make: Make, tmp_path: Path) -> None:
    with two_sites() as (primary, secondary):
        sent = [diverted("orders", f"{number}") for number in range(COUNT)]
        await put(secondary, BACKLOG, sent)
        async with running(make(primary, secondary)):
            assert len(await bodies(primary, "orders", COUNT)) == COUNT
        here = logged(primary, tmp_path / "a")
        there = logged(secondary, tmp_path / "b")
    assert operations(here, "syphon") == {"send": COUNT}
    assert operations(here, "receive")["receive_and_delete"] == COUNT
    assert operations(there, "send") == {"send": COUNT}
    syphoned = operations(there, "syphon")
    assert (syphoned["lock"], syphoned["complete"]) == (COUNT, COUNT)
    assert syphoned["peek"] >= 1
    keys = {row["key_name"] for row in (*here, *there) if row["purpose"] == "syphon"}
    assert keys == {primary.key_name}


async def test_each_poll_that_found_nothing_is_one_empty_receive(
    tmp_path: Path,
) -> None:
    """P13: four an hour, since an idle queue is polled for a quarter of an hour."""
    events = Events()

    def polls() -> list[int]:
        return [event.count for event in events.of(EventKind.RECEIVED)]

    with two_sites() as (primary, secondary):
        async with running(own_syphon(primary, secondary, POLLING, events)):
            await until(lambda: len(polls()) >= 3)
            sent = [diverted("orders", f"{number}") for number in range(COUNT)]
            await put(secondary, BACKLOG, sent)
            assert len(await bodies(primary, "orders", COUNT)) == COUNT
            seen = len(polls())
            await until(lambda: len(polls()) >= seen + 4)
        rows = logged(secondary, tmp_path)
    empty = polls().count(0)
    assert empty >= 6
    assert sum(polls()) == COUNT
    found = [row for row in rows if row["operation"] == "receive_empty"]
    # Closing a link asks once more; that is the end of a poll if one was under way.
    assert sum(row["amount"] or 1 for row in found) in (empty, empty + 1)
    assert {(row["entity"], row["purpose"], row["result"]) for row in found} == {
        (BACKLOG, "syphon", "empty")
    }
