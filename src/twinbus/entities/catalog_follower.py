"""Follows the catalog, where several brokers change namespaces and their entities.

A broker knows the catalog up to a version. It asks what has changed since, once a
second and before each change of its own. A change names the version that is known, so
the catalog refuses it if another broker was quicker. If what changed is not known any
more, or the catalog is another one than before, everything is compared.

Where one process has the catalog for itself nothing is followed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from twinbus.entities.other_brokers import NoOthers, OtherBrokers
from twinbus.entities.record_description import entities_by_namespace
from twinbus.errors import Overtaken, ServerBusy
from twinbus.store.base import (
    CommitFailed,
    CommitUnknown,
    StoreError,
    StoreFull,
    StoreUnreadable,
)
from twinbus.store.catalog import (
    Catalog,
    CatalogChanged,
    EntityRecord,
    RemovedEntity,
    Unfinished,
)

if TYPE_CHECKING:
    from twinbus.entities.namespace import Namespace
    from twinbus.entities.namespaces import Namespaces


_log = logging.getLogger(__name__)


class CatalogFollower:
    """Of one process; its changes of the catalog are written through it."""

    # What follows; set by itself.
    followed: "Namespaces"

    def __init__(self, catalog: Catalog, *, is_shared: bool) -> None:
        self._catalog = catalog
        self._is_shared = is_shared
        # Held from a check of the entities until catalog and memory are changed, so
        # that the check stays valid while the catalog writes.
        self._changing = asyncio.Lock()
        # What is known, and of which catalog.
        self._version = -1
        self._identity = b""
        # The generation that was last put, until the catalog has answered.
        self._doubted = b""
        self.others: OtherBrokers = NoOthers()

    @asynccontextmanager
    async def latest(self) -> AsyncIterator[None]:
        """What is checked inside is what the catalog says, until it is changed inside.

        Raises Overtaken if another broker changes the catalog at the same time, and
        ServerBusy if the catalog cannot be read or written.
        """
        async with self._changing:
            try:
                await self._follow()
            except StoreError as error:
                raise _away(error) from error
            known = self._version
            try:
                yield
            except CatalogChanged as error:
                raise Overtaken from error
            except CommitUnknown as error:
                raise ServerBusy(
                    "The catalog did not answer, so nobody knows whether the change "
                    f"happened: {error} Look, and try again."
                ) from error
            except StoreError as error:
                raise _away(error) from error
            has_changed = self._version != known
        # Not inside: two brokers would wait for each other.
        if has_changed:
            await self.others.follow()

    async def intend(self, intents: Sequence[Unfinished]) -> None:
        """Raises ServerBusy."""
        try:
            await self._catalog.intend(intents)
        except StoreError as error:
            raise _away(error) from error

    async def put(self, record: EntityRecord) -> None:
        """Inside of `latest`. Raises StoreError."""
        self._doubted = record.generation
        try:
            await self._catalog.put(record, known=self._known())
        except (CatalogChanged, CommitFailed, StoreFull):
            self._doubted = b""
            raise
        self._doubted = b""
        self._version += 1

    def may_have_put(self, record: EntityRecord) -> bool:
        """Nobody knows whether the catalog has what was last put. Other brokers may
        have found the entity, and have accepted messages for it. If it is not there,
        its intent is, for the next opening of its stores."""
        return self._is_shared and self._doubted == record.generation

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
            self.followed.forget_followed(self._gone(changes.removed))
            self._learn([*changes.created, *changes.updated])
            self._version = changes.version

    def _gone(self, removed: Sequence[RemovedEntity]) -> set[bytes]:
        """The generations of these, and of what is known here at their paths: of
        several that were removed there the catalog remembers the last one."""
        gone = {one.generation for one in removed}
        for one in removed:
            namespace = self.followed.named(one.namespace)
            known = None if namespace is None else namespace.find(one.path)
            if known is not None:
                gone.add(known.record.generation)
        return gone

    def _forget_others(self, records: Iterable[EntityRecord]) -> None:
        """All that are not among these."""
        known = {record.generation for record in records}
        mine = {entity.record.generation for entity in self.followed.entities()}
        own = {one.own.generation for one in self.followed if one.own is not None}
        self.followed.forget_followed((mine | own) - known)

    def _learn(self, records: Iterable[EntityRecord]) -> None:
        records = list(records)
        self.followed.own_followed(records)
        for name, entities in entities_by_namespace(records).items():
            namespace = self.followed.named(name)
            for record in entities if namespace is not None else ():
                assert namespace is not None
                _learn_one(namespace, record)


def _learn_one(namespace: "Namespace", record: EntityRecord) -> None:
    known = namespace.find(record.path)
    if known is not None and known.record.generation != record.generation:
        namespace.forget_followed(known)
        known = None
    if known is not None and known.record != record:
        namespace.update_followed(known, record)
    if known is not None:
        return
    try:
        namespace.admit_followed(record)
    except StoreUnreadable as error:
        # Its store was added to other brokers only.
        _log.error("'%s' is not served by this broker: %s", record.path, error)


def _away(error: StoreError) -> ServerBusy:
    return ServerBusy(f"The catalog is away: {error} Try again.")
