"""Ownership of a SQLite store: live, dead, stopped and competing processes."""

import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from twinbus.store.base import StoreInUse
from twinbus.store.opening import open_store
from twinbus.store.sqlite import SqliteStore

from . import workload
from .places import DEAD_PID


@contextmanager
def running(mode: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """The workload in another process, ended at last."""
    child = workload.start(mode, path)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def tell(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def make_zombie(child: subprocess.Popen[str]) -> None:
    """Dead, and still there, because nobody has taken notice."""
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store.sqlite3"


async def open_and_close(path: Path) -> int:
    store = SqliteStore(path)
    opened = await open_store(store, "test", workload.NOW)
    await store.close()
    return opened.epoch


def change_lease(path: Path, **values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for name, value in values.items():
            db.execute(f"UPDATE lease SET {name} = ?", (value,))


async def test_live_owner_is_named(path: Path) -> None:
    with running("step", path) as child:
        assert said(child) == "open"
        with pytest.raises(StoreInUse) as refusal:
            await open_store(SqliteStore(path), "test", workload.NOW)
        text = str(refusal.value)
        assert f"process {child.pid} (workload)" in text
        assert str(path.parent) in text and "--data" in text
        tell(child)
        assert said(child) == "1", "a refused opening disturbs nobody"


async def test_stopped_owner_is_alive(path: Path) -> None:
    with running("step", path) as child:
        assert said(child) == "open"
        child.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreInUse, match=f"process {child.pid}"):
            await open_store(SqliteStore(path), "test", workload.NOW)


async def test_owner_stopped_inside_a_transaction_is_named_soon(path: Path) -> None:
    with running("block", path) as child:
        assert said(child) == "open"
        child.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreInUse, match=f"process {child.pid}"):
            await open_store(SqliteStore(path), "test", workload.NOW)


async def test_killed_owner_is_replaced_even_as_a_zombie(path: Path) -> None:
    with running("step", path) as child:
        assert said(child) == "open"
        tell(child)
        assert said(child) == "1"
        make_zombie(child)
        assert await open_and_close(path) == 2


async def test_replaced_owner_learns_it_and_leaves_nothing(path: Path) -> None:
    with running("step", path) as child:
        assert said(child) == "open"
        tell(child)
        assert said(child) == "1"
        child.send_signal(signal.SIGSTOP)
        change_lease(path, pid=DEAD_PID)
        store = SqliteStore(path)
        opened = await open_store(store, "successor", workload.NOW)
        child.send_signal(signal.SIGCONT)
        tell(child)
        assert said(child).startswith("LeaseLost: ")
        assert await workload.expect_content(store) == 1
        await store.commit(workload.changes_of(2, opened.epoch))
        await store.close()


async def test_process_id_that_was_used_again_is_another_process(path: Path) -> None:
    with running("step", path) as child:
        assert said(child) == "open"
        change_lease(path, process_start="another boot:1")
        assert await open_and_close(path) == 2


async def test_owner_on_another_host_is_replaced(path: Path) -> None:
    with running("step", path) as child:
        assert said(child) == "open"
        change_lease(path, host="elsewhere.example")
        store = SqliteStore(path)
        await open_store(store, "successor", workload.NOW)
        tell(child)
        assert said(child).startswith("LeaseLost: "), "the epoch stops it"
        await store.close()


async def test_one_of_many_racing_processes_gets_the_store(path: Path) -> None:
    for _ in range(3):
        children = [workload.start("open", path) for _ in range(5)]
        try:
            for child in children:
                assert said(child) == "ready"
            for child in children:
                tell(child)
            answers = sorted(said(child).partition(":")[0] for child in children)
            assert answers == ["StoreInUse"] * 4 + ["open"]
        finally:
            for child in children:
                child.communicate()


async def test_closing_frees_the_store_at_once(path: Path) -> None:
    assert await open_and_close(path) == 1
    assert await open_and_close(path) == 2


async def test_second_name_of_the_file_is_the_same_store(path: Path) -> None:
    store = SqliteStore(path)
    await open_store(store, "test", workload.NOW)
    second_name = path.parent / "other.sqlite3"
    second_name.symlink_to(path)
    with pytest.raises(StoreInUse):
        await open_store(SqliteStore(second_name), "test", workload.NOW)
    await store.close()


async def test_copy_of_an_owned_file_is_free(path: Path, tmp_path: Path) -> None:
    with running("step", path) as child:
        assert said(child) == "open"
        tell(child)
        assert said(child) == "1"
        backup = tmp_path / "backup.sqlite3"
        with closing(sqlite3.connect(path)) as db:
            db.execute("VACUUM INTO ?", (str(backup),))
        store = SqliteStore(backup)
        await open_store(store, "restored", workload.NOW)
        assert await workload.expect_content(store) == 1
        await store.close()


async def test_abandoned_store_can_be_taken_by_the_same_process(path: Path) -> None:
    store = SqliteStore(path)
    await open_store(store, "test", workload.NOW)
    store.abandon()
    assert await open_and_close(path) == 2
