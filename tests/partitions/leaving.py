"""A bus with two stores, of which the first can leave: its disk fails."""

import errno
import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import Store
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_apart import ApartLog
from twinbus.testing import Bus

_PATIENCE_SECONDS = 20


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

    def __init__(self, **options: Any) -> None:
        super().__init__(stores=2, **options)
        self.disk = Disk()

    def _stores(self) -> list[Store] | None:
        paths = [self.folder / name for name in ("leaving.sqlite3", "steady.sqlite3")]
        return [
            SqliteStore(paths[0], ApartLog(paths[0], self.disk.sync)),
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
        self.disk.is_away = True
        with client.get_queue_sender(victim) as sender:
            try:
                sender.send_messages(ServiceBusMessage("finds out"))
            except ServiceBusError:
                pass
        self.until(lambda: not self.leaving.is_serving)

    def come_back(self) -> None:
        self.disk.is_away = False
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
