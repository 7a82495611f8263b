"""A bus of one queue on a real file, whose log is exported."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet

from twinbus.broker.fragment import MAIN, Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.log_book import actor_text
from twinbus.broker.message import Message
from twinbus.log_export.blob_source import SqliteBlobs
from twinbus.log_export.exporter import Exporter, ExportPlan
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.sqlite import SqliteStore
from twinbus.testing import ManualClock

GENERATION = b"g" * 16


class LoggedBus:
    """Sends to the queue `orders`, commit by commit."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "messages.sqlite3"
        self.folder = folder / "exported"
        self.clock = ManualClock()

    async def start(self) -> None:
        self.owner = StoreOwner(
            SqliteStore(self.file),
            self.clock,
            os.urandom,
            on_fatal=lambda error: None,
            after_turn=lambda: None,
            on_pressure=lambda is_high: None,
        )
        await self.owner.open("a test")
        self.owner.table.admit(GENERATION, FragmentSettings(path="orders"))
        self.owner.start()
        if self.owner.table.find(GENERATION, 0, MAIN) is None:
            self.owner.table.create(GENERATION, 0, self.owner.changes)
            await self.owner.durable()
        text = actor_text("10.0.0.1:5", "send orders", "shop-key")
        self.actor = self.owner.introduce(text)

    @property
    def queue(self) -> Fragment:
        found = self.owner.table.find(GENERATION, 0, MAIN)
        assert found is not None
        return found

    async def send(self, count: int = 1, commits: int = 1) -> None:
        for _ in range(commits):
            for _ in range(count):
                message = Message(b"\xa1\x02id...", 0, 0, 0)
                message.id_at, message.id_end = 0, 4
                now = self.clock.now()
                self.queue.enqueue(message, self.actor, now, self.owner.changes)
            await self.owner.durable()

    async def stop(self) -> None:
        await self.owner.stop()

    def exporter(self, **plan: Any) -> Exporter:
        settings = ExportPlan(folder=self.folder, namespace="site-a", **plan)
        made = Exporter(SqliteBlobs(self.file), settings, self.clock)
        assert made.open()
        return made

    def export(self, **plan: Any) -> None:
        """Whatever is there, as if nothing more came."""
        self.clock.advance(5_000)
        exporter = self.exporter(**plan)
        while exporter.take():
            pass
        exporter.write()
        exporter.close()

    def segments(self) -> list[dict[str, Any]]:
        files = sorted((self.folder / "segments").glob("*.json"))
        return [json.loads(file.read_text()) for file in files]

    def rows(self) -> list[dict[str, Any]]:
        return [row for one in self.segments() for row in self.rows_of(one)]

    def rows_of(self, segment: dict[str, Any]) -> Iterator[dict[str, Any]]:
        table = pyarrow.parquet.ParquetFile(self.folder / segment["file"]).read()
        assert table.num_rows == segment["rows"]
        yield from table.to_pylist()
