"""`python -m bench.refills`: what it costs to read for one hungry queue, and for many.

Queues have a backlog on disk, and each has a receiver that takes all of it. Measured is
the work of the store's owner from the moment at which they all ask until they all have
it: reading, locking and handing over, without a network. Beside the time: how many
times the store was asked, which is what a database server would make them wait for.
Times are CPU time, of the best round: others may use the machine.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.tables import markdown_table
from twinbus.broker.fragment import MAIN, Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.clock import SystemClock
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.sqlite import SqliteStore

_CASES = ((1, 1_000), (1, 20_000), (500, 10), (500, 200))
"""Queues, and messages in each."""

_BODY = bytes(1_000)


class CountingStore:
    """Counts what is asked of a store."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.call_count = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        def counted(*given: Any, **named: Any) -> Awaitable[Any]:
            self.call_count += 1
            answer: Awaitable[Any] = found(*given, **named)
            return answer

        return counted


class Taker(Receiver):
    """Takes all there is, under locks."""

    def __init__(self, wanted: int) -> None:
        super().__init__(1, True)
        self.wanted = wanted

    def capacity(self) -> int:
        return self.wanted

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        self.wanted -= len(locks)

    def deliver_removed(self, messages: list[Message]) -> None:
        raise AssertionError("it receives under locks")

    def served(self) -> None:
        pass

    def session_lost(self) -> None:
        raise AssertionError("it has no session")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilled:
    """One case."""

    queue_count: int
    message_count: int
    milliseconds: float
    longest_turn_ms: float
    call_count: int


def _ignore(*what: object) -> None:
    pass


async def _owner(store: CountingStore) -> StoreOwner:
    owner = StoreOwner(
        store,
        SystemClock(),
        os.urandom,
        on_fatal=_ignore,
        after_turn=_ignore,
        on_pressure=_ignore,
    )
    await owner.open("bench")
    return owner


async def _filled_queues(
    owner: StoreOwner, queue_count: int, message_count: int
) -> list[Fragment]:
    queues = []
    for number in range(queue_count):
        generation = number.to_bytes(16, "big")
        owner.table.admit(generation, FragmentSettings(path=f"queue-{number}"))
        owner.table.create(generation, 0, owner.changes)
        found = owner.table.find(generation, 0, MAIN)
        assert found is not None
        queues.append(found)
    for queue in queues:
        for _ in range(message_count):
            queue.enqueue(Message(_BODY, 0, 0, 0), 1, 1, owner.changes)
        if owner.changes.pending_bytes > len(_BODY) * 50_000:
            await owner.turn()
    await owner.turn()
    return queues


async def _round(owner: StoreOwner, queues: list[Fragment], wanted: int) -> list[float]:
    """How long each turn took until all had what they wanted, in ms of CPU."""
    takers = []
    for queue in queues:
        queue.restore(queue.record())
        taker = Taker(wanted)
        takers.append(taker)
        owner.join(queue, taker)
        owner.offer_capacity(queue, taker)
    turns = []
    while any(taker.wanted for taker in takers):
        begun = time.process_time()
        await owner.turn()
        turns.append((time.process_time() - begun) * 1_000)
    for queue, taker in zip(queues, takers, strict=True):
        owner.leave(queue, taker)
    return turns


async def measure(queue_count: int, message_count: int, rounds: int) -> Refilled:
    """The best of some rounds, after one that does not count."""
    with tempfile.TemporaryDirectory() as folder:
        store = CountingStore(SqliteStore(Path(folder) / "store.sqlite3"))
        owner = await _owner(store)
        queues = await _filled_queues(owner, queue_count, message_count)
        owner.table.bodies.limit_bytes = 1 << 40
        await _round(owner, queues, message_count)
        store.call_count = 0
        found = [await _round(owner, queues, message_count) for _ in range(rounds)]
        calls = store.call_count // rounds
        await owner.stop()
    return Refilled(
        queue_count=queue_count,
        message_count=message_count,
        milliseconds=min(sum(turns) for turns in found),
        longest_turn_ms=min(max(turns) for turns in found),
        call_count=calls,
    )


def _table(results: list[Refilled]) -> str:
    columns: list[tuple[str, Callable[[Refilled], str]]] = [
        ("Queues", lambda r: str(r.queue_count)),
        ("Messages each", lambda r: f"{r.message_count:,}"),
        ("All served after", lambda r: f"{r.milliseconds:.1f} ms"),
        ("Longest turn", lambda r: f"{r.longest_turn_ms:.1f} ms"),
        ("Store calls", lambda r: str(r.call_count)),
    ]
    rows = [[show(result) for _, show in columns] for result in results]
    return markdown_table([name for name, _ in columns], rows)


def main() -> None:
    """Measure all cases, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    results = [asyncio.run(measure(*case, rounds)) for case in _CASES]
    print(_table(results))


if __name__ == "__main__":
    main()
