"""A workload whose state after each commit is known, in this process or another.

Commit N adds messages, settles those of commit N - 2, defers one, logs, and counts.
After a crash the content must be that after some commit, complete, and not before the
last one that was confirmed.

As a program: `python workload.py MODE PATH`; it prints a line for each step. Modes:
`run` commits without end, `step` once for each line of input, `open` opens the store
when it reads a line and holds it until the input ends, `block` stays inside a
transaction.
"""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

from twinbus.broker.changes import ChangeSet, FragmentRecord
from twinbus.broker.message import DEFERRED, Message, restored_message
from twinbus.broker.operation_log import SEND
from twinbus.broker.row_id import base_of
from twinbus.store.base import Store, StoreError
from twinbus.store.opening import open_store
from twinbus.store.sqlite import SqliteStore

NOW = 1_700_000_000_000
FRAGMENT = 5
ADDED = 20
BODY_BYTES = 500


def _message(sequence: int) -> Message:
    raw = b"%d." % sequence * (BODY_BYTES // 8)
    row_id = base_of(FRAGMENT) + sequence
    ttl_ms = 60_000 if sequence % 3 else 0
    return restored_message(row_id, raw, 7, NOW, ttl_ms, 0, 0, 0, None)


def _sequences(number: int) -> list[int]:
    """What commit `number` adds."""
    return list(range((number - 1) * ADDED + 1, number * ADDED + 1))


def _kept(number: int) -> tuple[list[int], list[int]]:
    """Active and deferred messages after commit `number`."""
    recent = _sequences(number) if number >= 1 else []
    if number >= 2:
        recent = _sequences(number - 1)[1:] + recent
    deferred = [_sequences(n)[0] for n in range(1, number)]
    return recent, deferred


def _record(number: int) -> FragmentRecord:
    active, deferred = _kept(number)
    return FragmentRecord(
        number=FRAGMENT,
        generation=bytes(16),
        index=0,
        sub_queue=0,
        next_sequence=number * ADDED + 1,
        active_count=len(active),
        deferred_count=len(deferred),
    )


def changes_of(number: int, epoch: int) -> ChangeSet:
    """Commit `number`, sealed."""
    changes = ChangeSet()
    changes.active_added += [_message(i) for i in _sequences(number)]
    if number >= 2:
        deferred = _message(_sequences(number - 1)[0])
        changes.active_removed.append(deferred.row_id)
        deferred.state = DEFERRED
        changes.deferred_added.append(deferred)
    if number >= 3:
        settled = _sequences(number - 2)[1:]
        changes.active_removed += [base_of(FRAGMENT) + i for i in settled]
    changes.log.add(SEND, 1, base_of(FRAGMENT) + number * ADDED, 9, NOW, NOW)
    changes.records.append(_record(number))
    changes.seal(epoch, number, NOW)
    return changes


async def expect_content(store: Store) -> int:
    """The content is that after a whole commit; returns its number."""
    number = await store.last_batch()
    active, deferred = _kept(number)
    found = await store.browse(FRAGMENT, 0, 1_000_000, 1 << 40)
    expected = sorted(active + deferred)
    assert [m.row_id - base_of(FRAGMENT) for m in found] == expected
    for message in found:
        sequence = message.row_id - base_of(FRAGMENT)
        assert message.raw == _message(sequence).raw
        assert message.state == (DEFERRED if sequence in deferred else 0)
    assert await store.fragments() == ([_record(number)] if number else [])
    logged = await store.operations(0, 1_000_000)
    assert [batch for batch, _ in logged] == list(range(1, number + 1))
    return number


async def commit_up_to(store: Store, owner: str, number: int) -> None:
    """Open the store and commit until that number."""
    opened = await open_store(store, owner, NOW)
    for batch in range(opened.last_batch + 1, number + 1):
        await store.commit(changes_of(batch, opened.epoch))


async def commit_up_to_opened(store: Store, epoch: int, number: int) -> None:
    """Commit from the first until that number, in a store that is open."""
    for batch in range(1, number + 1):
        await store.commit(changes_of(batch, epoch))


# --- as a program ---------------------------------------------------------------


def start(mode: str, path: Path, **limits: int) -> subprocess.Popen[str]:
    """The workload in a process of its own; the caller ends it."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.Popen(
        [sys.executable, __file__, mode, str(path), *map(str, limits.values())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def _say(text: object) -> None:
    print(text, flush=True)


async def _commit_for_ever(path: Path, stepwise: bool) -> None:
    store = SqliteStore(path)
    opened = await open_store(store, "workload", NOW)
    _say("open")
    batch = opened.last_batch
    while not stepwise or sys.stdin.readline():
        batch += 1
        await store.commit(changes_of(batch, opened.epoch))
        _say(batch)


async def _open_and_hold(path: Path) -> None:
    _say("ready")
    sys.stdin.readline()
    await open_store(SqliteStore(path), "workload", NOW)
    _say("open")
    sys.stdin.readline()


async def _block(path: Path) -> None:
    store = SqliteStore(path)
    await open_store(store, "workload", NOW)
    store._db.execute("BEGIN IMMEDIATE")
    _say("open")
    sys.stdin.readline()


def _main(mode: str, path: Path, file_bytes: int = 0) -> None:
    if file_bytes:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    work = {
        "run": lambda: _commit_for_ever(path, stepwise=False),
        "step": lambda: _commit_for_ever(path, stepwise=True),
        "open": lambda: _open_and_hold(path),
        "block": lambda: _block(path),
    }[mode]
    try:
        asyncio.run(work())
    except StoreError as error:
        _say(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
