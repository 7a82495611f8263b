"""A pair for the tests of the Spark syphon: a backlog, and what was restored."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from pairs.syphon_world import PRIMARY, backlog, diverted, put

from twinbus.spark.bulk.client import BulkClient, EntityBounds
from twinbus.spark.connection import SparkConnection
from twinbus.spark.packing import Range
from twinbus.spark.secret import Secret
from twinbus.spark.syphon import SyphonOptions

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 100.0


@dataclass(frozen=True)
class Side:
    """One namespace, be it a bus of the test or a server of its own."""

    connection_string: str
    port: int
    key_name: str
    key: str
    # The file with the connection string.
    file: Path
    # Lets time pass: batches end before the instant at which they are planned.
    tick: Callable[[], object]

    @property
    def credential(self) -> str:
        return f"file:{self.file}"

    def client(self) -> BulkClient:
        return BulkClient(
            SparkConnection(secret=Secret(text=self.connection_string)), 10_000
        )


def side_of(bus: Any, file: Path) -> Side:
    """Of a `Bus` or a `Serving`."""
    file.write_text(bus.connection_string)
    name = getattr(bus, "key_name", "RootManageSharedAccessKey")
    advance = getattr(bus, "advance", None)
    tick = _clock_ticked if advance is None else lambda: advance(1)
    return Side(bus.connection_string, bus.port, name, bus.key, file, tick)


def _clock_ticked() -> None:
    began_at = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= began_at:
        pass


@dataclass(frozen=True)
class Pair:
    primary: Side
    secondary: Side

    def options(self, **options: Any) -> SyphonOptions:
        given = {"timeout_ms": 20_000, "lease_wait_ms": 60_000, **options}
        return SyphonOptions(
            primary=self.primary.credential,
            secondary=self.secondary.credential,
            primary_name=PRIMARY,
            **given,
        )

    def divert(self, index: int, payloads: Sequence[bytes]) -> None:
        """Into the backlog queue of that index."""
        asyncio.run(put(self.secondary, backlog(index), payloads))  # type: ignore[arg-type]
        self.secondary.tick()

    def backlog_counts(self) -> tuple[int, int]:
        """Active and deferred messages in all backlog queues."""
        found = bounds(self.secondary, f"{PRIMARY}/*")
        parts = [part for entity in found for part in entity.fragments]
        return sum(p.active_count for p in parts), sum(p.deferred_count for p in parts)


class Found(NamedTuple):
    """A message as it lies in an entity."""

    session: str | None
    body: str
    row: dict[str, Any]


def bounds(side: Side, pattern: str) -> list[EntityBounds]:
    client = side.client()
    try:
        return client.runtime(pattern=pattern)[0]
    finally:
        client.close()


def content(
    side: Side, pattern: str, states: Sequence[str] = ("active",)
) -> dict[str, list[Found]]:
    """Messages of entities in order, by path."""
    client = side.client()
    try:
        return {
            entity.path: _messages(client, entity, states)
            for entity in client.runtime(pattern=pattern)[0]
        }
    finally:
        client.close()


def _messages(
    client: BulkClient, entity: EntityBounds, states: Sequence[str]
) -> list[Found]:
    rows: list[dict[str, Any]] = []
    for part in entity.fragments:
        whole = Range(
            path=entity.path,
            generation=entity.generation,
            fragment=part.index,
            first=part.base,
            end=part.next,
            message_count=0,
            size_bytes=0,
        )
        for batch in client.browse(whole, (), states):
            rows += batch.to_pylist()
    return [Found(row["session_id"], row["body"].decode(), row) for row in rows]


def bodies(side: Side, path: str, states: Sequence[str] = ("active",)) -> list[str]:
    return [found.body for found in content(side, path, states)[path]]


# --- the load of the drills ---------------------------------------------------------

ENTITIES, SESSIONS, QUEUES = 25, 8, 10


def entity(index: int) -> str:
    return f"entity-{index:02}"


def load(count: int, first: int = 0) -> list[tuple[str, str, str]]:
    """Entity, session and body of so many messages, from a number on: those of a
    session have bodies that rise."""
    return [
        (entity(at % ENTITIES), f"s{at // ENTITIES % SESSIONS}", f"{at:08}")
        for at in range(first, first + count)
    ]


def divert_load(pair: Pair, messages: Iterable[tuple[str, str, str]]) -> None:
    """Into ten queues: a session keeps to one, as paired senders do it."""
    by_queue: dict[int, list[bytes]] = {}
    for path, session, body in messages:
        index = crc32(f"{path} {session}".encode()) % QUEUES
        payload = diverted(path, body, session_id=session)
        by_queue.setdefault(index, []).append(payload)
    for index, payloads in by_queue.items():
        pair.divert(index, payloads)


class Verdict(NamedTuple):
    """What an audit found: of 600 messages, it is to be (600, 0, 0, 0)."""

    restored: int
    lost: int
    doubled: int
    inversions: int


def audit(side: Side, messages: Sequence[tuple[str, str, str]]) -> Verdict:
    """Compare what the primary has with what was diverted."""
    found = content(side, "entity-*")
    there = [
        (path, str(one.session), one.body)
        for path, all_ in found.items()
        for one in all_
    ]
    inversions = 0
    last: dict[tuple[str, str], str] = {}
    for path, session, body in there:
        inversions += body < last.get((path, session), "")
        last[path, session] = body
    distinct = set(there)
    return Verdict(
        restored=len(distinct & set(messages)),
        lost=len(set(messages) - distinct),
        doubled=len(there) - len(distinct),
        inversions=inversions,
    )
