"""A process that is stopped within a write to the catalog is found, and ended."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from twinbus.cluster.blocked_catalog import BlockedCatalog
from twinbus.cluster.terms import TERM_MS
from twinbus.store import process_identity
from twinbus.store.base import CommitFailed
from twinbus.store.catalog import BrokerRecord
from twinbus.store.process_identity import this_process
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.sqlite_writer import writer_of

_WRITE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("writing", flush=True)
sys.stdin.read()
"""


@contextmanager
def stopped_writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is stopped within a transaction."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITE, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGSTOP)
        yield process
    finally:
        process.kill()
        process.communicate()


def record_of(pid: int) -> BrokerRecord:
    start = process_identity._start_of(pid) or ""
    process = replace(this_process(), pid=pid, start=start)
    description = {
        **{"name": "1", "process": process.to_json(), "formats": {}},
        **{"stores": {}, "reach": []},
    }
    return BrokerRecord(
        broker_uuid=b"b" * 16, address="", beat=1, description=description
    )


@pytest.fixture
async def catalog(tmp_path: Path) -> SqliteCatalog:
    catalog = SqliteCatalog(tmp_path / "catalog.sqlite3")
    await catalog.open()
    return catalog


async def test_broker_that_blocks_all_others_is_ended(catalog: SqliteCatalog) -> None:
    me = record_of(this_process().pid)
    await catalog.announce(me)
    blocked = BlockedCatalog(catalog)
    with stopped_writer(catalog.path) as process:
        with pytest.raises(CommitFailed):
            await catalog.announce(me)
        assert writer_of(catalog.path) == process.pid
        brokers = [record_of(process.pid)]
        blocked.is_blocked(brokers, 0)
        blocked.is_blocked(brokers, TERM_MS - 1)
        assert process.poll() is None
        blocked.is_blocked(brokers, TERM_MS)
        assert process.wait(10) == -signal.SIGKILL
        await catalog.announce(me)
    await catalog.close()


async def test_process_that_is_no_broker_is_named(
    catalog: SqliteCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = BlockedCatalog(catalog)
    with stopped_writer(catalog.path) as process:
        for at in (0, TERM_MS):
            blocked.is_blocked([], at)
        assert process.poll() is None
        assert f"process {process.pid} keeps all brokers" in caplog.text
    await catalog.close()


async def test_writers_that_take_turns_are_left_alone(catalog: SqliteCatalog) -> None:
    blocked = BlockedCatalog(catalog)
    with stopped_writer(catalog.path) as process:
        brokers = [record_of(process.pid)]
        blocked.is_blocked(brokers, 0)
        blocked.is_free()
        blocked.is_blocked(brokers, TERM_MS)
        assert process.poll() is None
    assert writer_of(catalog.path) is None
    await catalog.close()
