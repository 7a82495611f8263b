"""A bus with two stores, of which the first can leave.

Of SQLite stores the disk fails. A PostgreSQL store is taken away by a fault.
"""

import errno
import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import Store
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_apart import ApartLog
from twinbus.testing import Bus

_PATIENCE_SECONDS = 60


class Disk:
    """Syncs that fail while it is away."""

    def __init__(self) -> None:
        self.is_away = False

    def sync(self, descriptor: int) -> None:
        if self.is_away:
            raise OSError(errno.EIO, "the disk is away")
        os.fdatasync(descriptor)


class LeavingBus(Bus):
    """The queue `here` is in the store that leaves, and `there` in the other one."""

    def __init__(
        self, urls: tuple[str, ...] = (), settings: Mapping[str, Any] | None = None
    ) -> None:
        """`urls` are those of two PostgreSQL stores; none: two files."""
        self._has_files = not urls
        self._disk = Disk()
        own = dict(settings or {})
        if urls:
            own |= {"store": urls, "allow_faults": True}
        super().__init__(stores=2 if self._has_files else 1, settings=own)

    def _stores(self) -> list[Store] | None:
        if not self._has_files:
            return None
        paths = [self.folder / name for name in ("leaving.sqlite3", "steady.sqlite3")]
        return [
            SqliteStore(paths[0], ApartLog(paths[0], self._disk.sync)),
            SqliteStore(paths[1], ApartLog(paths[1])),
        ]

    def create_in(self, owner: StoreOwner, path: str, **properties: Any) -> None:
        """Create a conventional queue in this store; it may forward to another."""
        beside = [f"{path}-{number}" for number in range(2)]
        forward_to = properties.pop("forward_to", None)
        for name in beside:
            self.create_queue(name)
        self.create_queue(path, **properties)
        if self.server.namespace.queue(path).fragment().home is not owner:
            self.delete_queue(path)
            self.create_queue(f"{path}-2")
            self.create_queue(path, **properties)
        assert self.server.namespace.queue(path).fragment().home is owner
        if forward_to is not None:
            self.update_queue(path, forward_to=forward_to)

    @property
    def leaving(self) -> StoreOwner:
        first, _ = self.server.owners
        return first

    @property
    def steady(self) -> StoreOwner:
        _, second = self.server.owners
        return second

    def leave(self, client: ServiceBusClient, victim: str) -> None:
        """The first store leaves; a queue there has a send that finds out."""
        if self._has_files:
            self._disk.is_away = True
        else:
            self.faults.set("gone", store=self.leaving.store.location)
        with client.get_queue_sender(victim) as sender:
            try:
                sender.send_messages(ServiceBusMessage("finds out"))
            except ServiceBusError:
                pass
        self.until(lambda: not self.leaving.is_serving)

    def heal(self) -> None:
        """The store can be used again; the bus will find out."""
        if self._has_files:
            self._disk.is_away = False
        else:
            self.faults.clear()

    def come_back(self) -> None:
        self.heal()
        self.until(self._is_back)

    def _is_back(self) -> bool:
        # The bus opens the store again now and then, by its own clock.
        self.advance(timedelta(seconds=1))
        return self.leaving.is_serving and not self.on_their_way()

    def on_their_way(self) -> int:
        """How many messages are in an outbox."""
        owners = list(self.server.owners)
        return sum(
            one.outbox.count_for(other.store_uuid) for one in owners for other in owners
        )

    def until(self, condition: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < ends_at, "it does not happen"
            time.sleep(0.01)
