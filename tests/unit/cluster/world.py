"""Several brokers in one process, with one folder and one clock.

Catalog and stores are SQLite files, as in a real cluster. Nothing here opens a socket.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from unit.entities.world import message

from twinbus.broker.changes import OutboxEntry
from twinbus.broker.fragment import MAIN
from twinbus.broker.message import Message
from twinbus.cluster.broker import Broker
from twinbus.cluster.shared_store import SharedStore
from twinbus.entities.namespace_limits import NamespaceLimits
from twinbus.entities.namespaces import Namespaces
from twinbus.errors import ServerBusy
from twinbus.outbox.remote_stores import Receipt
from twinbus.owner.owners import Owners
from twinbus.owner.sharing import Sharing
from twinbus.owner.store_owner import StoreOwner, owner_of
from twinbus.owner.turns import Turns
from twinbus.store.base import StoreError
from twinbus.store.formats import readable_formats
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_catalog import FORMAT, SqliteCatalog
from twinbus.testing.clock import ManualClock

LOOK_MS = 100


class OtherMembers:
    """The stores that other members serve, as one of them reaches them."""

    def __init__(self, world: "ClusterWorld", me: "Member") -> None:
        self._world = world
        self._me = me

    def _owner(self, store_uuid: bytes) -> "Member | None":
        for member in self._world.members:
            owner = member.owners.find(store_uuid)
            if owner is not None and owner.is_serving and self._knows(member):
                return member
        return None

    def _knows(self, member: "Member") -> bool:
        others = self._me.broker.directory.others()
        return any(one.broker_uuid == member.broker.uuid for one in others)

    def serves(self, store_uuid: bytes) -> bool:
        return self._owner(store_uuid) is not None

    async def append(
        self,
        store_uuid: bytes,
        source_uuid: bytes,
        epoch: int,
        entries: list[OutboxEntry],
    ) -> Receipt:
        raise ServerBusy("Nothing is brought here.")

    async def diverted(self, log_uuid: bytes, store_uuid: bytes) -> list[str]:
        owner = self._owner(log_uuid)
        if owner is None or owner.is_frozen:
            raise ServerBusy("It does not answer.")
        return owner.namespace.transfer_log.kept_for(log_uuid, store_uuid)


class Member:
    """One broker, with all that its process would have."""

    def __init__(self, world: "ClusterWorld", name: str, sharing: Sharing) -> None:
        self.clock = world.clock
        self.fatal: list[StoreError] = []
        self.catalog = SqliteCatalog(world.folder / "catalog.sqlite3")
        stores = [SqliteStore(path) for path in world.paths]
        self.owners = Owners([self._owner(store) for store in stores], sharing)
        self.namespaces = Namespaces(
            "space",
            self.catalog,
            self.owners,
            self.clock,
            os.urandom,
            Turns(self.clock),
            rules=(),
            limits=NamespaceLimits(
                max_entities=100, max_message_bytes=1000, max_entity_message_bytes=1000
            ),
        )
        self.namespace = self.namespaces.default
        self.namespace.transfer_log.elsewhere = OtherMembers(world, self)
        self.shared = [
            SharedStore(owner, store)
            for owner, store in zip(self.owners, stores, strict=True)
        ]
        self.broker = Broker(
            self.catalog,
            self.shared,
            self.clock,
            os.urandom(16),
            name=name,
            namespace="space",
            formats=readable_formats(FORMAT.version),
            follow=self.namespace.follower.follow,
            on_return=self.namespace.transfer_log.look_again,
            on_fatal=self.fatal.append,
        )
        # Looks and ticks no more, as if it were frozen.
        self.is_frozen = False

    def _owner(self, store: SqliteStore) -> StoreOwner:
        return StoreOwner(
            store,
            self.clock,
            os.urandom,
            on_fatal=self.fatal.append,
            after_turn=lambda: None,
            on_pressure=lambda _: None,
        )

    async def start(self) -> None:
        remembered = await self.namespaces.remembered_stores()
        await self.owners.open("test", remembered)
        await self.namespaces.open()
        self.owners.start()
        self.namespaces.start()

    async def stop(self) -> None:
        await self.owners.stop()
        await self.broker.leave()
        await self.namespaces.close()

    def served(self) -> set[Path]:
        return {Path(one.location) for one in self.shared if one.owner.is_serving}

    def owner(self, path: Path) -> StoreOwner:
        """Of the store in that file."""
        (found,) = [one.owner for one in self.shared if one.location == str(path)]
        return found

    async def send(self, queue: str, **fields: object) -> Message:
        """Send to the queue, and wait until it is durable. Raises ServiceBusError."""
        fragment = self.namespace.queue(queue).fragment(MAIN)
        sent = message(**fields)  # type: ignore[arg-type]
        owner = owner_of(fragment)
        fragment.enqueue(sent, 1, self.clock.now(), owner.changes)
        await owner.durable()
        return sent

    def active_count(self, queue: str) -> int:
        return self.namespace.queue(queue).counts().active


class ClusterWorld:
    """All brokers, and the time."""

    def __init__(self, folder: Path, store_count: int = 4) -> None:
        self.folder = folder
        self.paths = [folder / f"{number}.sqlite3" for number in range(store_count)]
        self.clock = ManualClock()
        self.members: list[Member] = []

    async def prepare(self) -> None:
        """Stores and catalog, as the supervisor makes them."""
        first = Member(self, "first", Sharing.PREPARING)
        await first.start()
        await first.owners.stop()
        await first.namespaces.close()

    async def join(self, name: str) -> Member:
        member = Member(self, name, Sharing.SHARED)
        await member.start()
        self.members.append(member)
        return member

    async def leave(self, member: Member) -> None:
        self.members.remove(member)
        await member.stop()

    async def pass_time(self, milliseconds: int) -> None:
        for _ in range(0, milliseconds, LOOK_MS):
            self.clock.advance(LOOK_MS)
            for member in self.members:
                if not member.is_frozen:
                    member.owners.tick()
                    member.namespace.loose_ends.tick()
                    await member.broker.look()
            await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def until(self, is_so: Callable[[], bool], milliseconds: int) -> None:
        """Let time pass; fails if it takes longer."""
        for _ in range(0, milliseconds, LOOK_MS):
            if is_so():
                return
            await self.pass_time(LOOK_MS)
        assert is_so()

    def is_shared_equally(self) -> bool:
        served = [member.served() for member in self.members]
        counts = [len(one) for one in served]
        everything = set().union(*served)
        return (
            everything == set(self.paths)
            and sum(counts) == len(self.paths)
            and max(counts) - min(counts) <= 1
        )

    async def stop(self) -> None:
        for member in self.members:
            await member.stop()


def free_lease(path: Path) -> None:
    """As if its holder were a process that has ended."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE lease SET owner = NULL")
