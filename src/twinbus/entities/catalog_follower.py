"""Follows the catalog, where several brokers change the entities of a namespace.

A broker knows the catalog up to a version. It asks what has changed since, once a
second and before each change of its own. A change names the version that is known, so
the catalog refuses it if another broker was quicker. If what changed is not known any
more, or the catalog is another one than before, everything is compared.

Where one process has the namespace for itself nothing is followed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from twinbus.entities.other_brokers import NoOthers, OtherBrokers
from twinbus.entities.record_description import entities_of, entity_order
from twinbus.errors import ServerBusy
from twinbus.store.base import StoreError, StoreUnreadable
from twinbus.store.catalog import (
    Catalog,
    CatalogChanged,
    EntityRecord,
    Unfinished,
)

if TYPE_CHECKING:
    from twinbus.entities.entity import Entity
    from twinbus.entities.namespace import Namespace


_log = logging.getLogger(__name__)


class CatalogFollower:
    """Of one namespace; its changes of the catalog are written through it."""

    def __init__(
        self, namespace: "Namespace", catalog: Catalog, *, is_shared: bool
    ) -> None:
        self._namespace = namespace
        self._catalog = catalog
        self._is_shared = is_shared
        # Held from a check of the entities until catalog and memory are changed, so
        # that the check stays valid while the catalog writes.
        self._changing = asyncio.Lock()
        # What is known, and of which catalog.
        self._version = -1
        self._identity = b""
        self.others: OtherBrokers = NoOthers()

    @asynccontextmanager
    async def latest(self) -> AsyncIterator[None]:
        """What is checked inside is what the catalog says, until it is changed inside.

        Raises ServerBusy if another broker changes the catalog at the same time, or
        the catalog cannot be read.
        """
        async with self._changing:
            try:
                await self._follow()
            except StoreError as error:
                raise ServerBusy(f"The catalog is away: {error} Try again.") from error
            known = self._version
            try:
                yield
            except CatalogChanged as error:
                raise ServerBusy(
                    "Another broker changed entities at the same moment. Nothing of "
                    "this change happened: try again."
                ) from error
            has_changed = self._version != known
        # Not inside: two brokers would wait for each other.
        if has_changed:
            await self.others.follow()

    async def put(self, record: EntityRecord) -> None:
        """Inside of `latest`. Raises StoreError."""
        await self._catalog.put(record, known=self._known())
        self._version += 1

    async def remove(self, tombstones: Sequence[Unfinished]) -> None:
        """Inside of `latest`. Raises StoreError."""
        await self._catalog.remove(tombstones, known=self._known())
        self._version += 1

    def _known(self) -> int | None:
        return self._version if self._is_shared else None

    async def follow(self) -> None:
        """Learn what other brokers have changed. Raises StoreError."""
        async with self._changing:
            await self._follow()

    async def _follow(self) -> None:
        if not self._is_shared:
            return
        changes = await self._catalog.changes_since(self._version)
        if changes is None or changes.identity != self._identity:
            snapshot = await self._catalog.snapshot()
            self._forget_others(snapshot.entities)
            self._learn(snapshot.entities)
            self._version, self._identity = snapshot.version, snapshot.identity
        else:
            self._forget({one.generation for one in changes.removed})
            self._learn([*changes.created, *changes.updated])
            self._version = changes.version

    def _forget_others(self, records: Iterable[EntityRecord]) -> None:
        """All that are not among these."""
        known = {record.generation for record in records}
        mine = {entity.record.generation for entity in self._namespace.entities()}
        self._forget(mine - known)

    def _forget(self, generations: set[bytes]) -> None:
        gone = [
            entity
            for entity in self._namespace.entities()
            if entity.record.generation in generations
        ]
        # Subscriptions come first: they need their topic.
        for entity in sorted(gone, key=lambda one: -entity_order(one.record)):
            self._namespace.forget_followed(entity)

    def _learn(self, records: Iterable[EntityRecord]) -> None:
        for record in entities_of(self._namespace.name, records):
            self._learn_one(record, self._namespace.find(record.path))

    def _learn_one(self, record: EntityRecord, known: "Entity | None") -> None:
        if known is not None and known.record.generation != record.generation:
            self._namespace.forget_followed(known)
            known = None
        if known is not None and known.record != record:
            self._namespace.update_followed(known, record)
        if known is not None:
            return
        try:
            self._namespace.admit_followed(record)
        except StoreUnreadable as error:
            # Its store was added to other brokers only.
            _log.error("'%s' is not served by this broker: %s", record.path, error)
