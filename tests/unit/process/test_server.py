"""A bug in one connection does not stop the others."""

import asyncio
import logging
from pathlib import Path

import pytest

from twinbus.config.config import Config
from twinbus.errors import ServiceBusError
from twinbus.process.server import Server
from twinbus.store.memory import MemoryStore
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.store.memory_disk import MemoryDisk
from twinbus.testing.clock import ManualClock


class Connection:
    """Fails when its deadlines are looked at, if it is told to."""

    def __init__(self, *, fails: bool) -> None:
        self.requests: set[asyncio.Task[None]] = set()
        self.fails = fails
        self.tick_count = 0
        self.is_aborted = False

    def tick(self, now: int, monotonic: int) -> None:
        self.tick_count += 1
        if self.fails:
            raise AssertionError("a bug")

    def described(self) -> str:
        return ""

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self, error: ServiceBusError | None, monotonic: int) -> None:
        pass

    def cut(self, error: ServiceBusError) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


async def test_bug_in_a_tick_ends_its_own_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    config = Config(data=tmp_path, port=0, http_port=0, tls_port=0)
    server = Server(
        config, clock=clock, stores=[MemoryStore(MemoryDisk())], catalog=MemoryCatalog()
    )
    connections = [Connection(fails=fails) for fails in (False, True, False)]
    for one in connections:
        server.joined(one)
    clock.advance(5_000)
    with caplog.at_level(logging.ERROR):
        server.tick()
    assert [one.tick_count for one in connections] == [1, 1, 1]
    assert [one.is_aborted for one in connections] == [False, True, False]
    assert "a bug ends a connection" in caplog.text
