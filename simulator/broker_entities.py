"""Clients of a simulated cluster that create and delete queues, each by way of any
broker; and what must be true of a path that two of them use."""

import asyncio
import json
import math
from dataclasses import dataclass, field
from typing import Final

from simulator.broker_audit import LOCK_MS, SentMessage
from simulator.broker_visit import (
    TEMPORARY,
    FindBroker,
    Means,
    Troubles,
    Visit,
    check_error,
    now,
    visited,
)
from simulator.sighting import Violation
from twinbus.client.connection import ClientConnection
from twinbus.client.management import ask_namespace
from twinbus.errors import EntityAlreadyExists, MessagingEntityNotFound

PROPERTIES: Final = {"lock_duration_ms": LOCK_MS, "max_delivery_count": 2_000}
"""Of all queues."""


@dataclass(slots=True, kw_only=True, eq=False)
class PathChange:
    """A creation or a deletion that may have happened."""

    is_creation: bool
    asked_at: float
    # When it was confirmed; it may happen at any time if it never was.
    ended_at: float = math.inf

    @property
    def is_confirmed(self) -> bool:
        return self.ended_at < math.inf


@dataclass(slots=True, kw_only=True, eq=False)
class PathAudit:
    """What is known of one path."""

    path: str
    changes: list[PathChange] = field(default_factory=list)

    def begin(self, *, is_creation: bool) -> PathChange:
        change = PathChange(is_creation=is_creation, asked_at=now())
        self.changes.append(change)
        return change

    def confirm(self, change: PathChange) -> None:
        """Raises Violation: between two creations there must be a deletion, and the
        other way round."""
        change.ended_at = now()
        for before in self.changes:
            if before is change or before.is_creation is not change.is_creation:
                continue
            if before.is_confirmed and not self._is_undone_between(before, change):
                what = "created" if change.is_creation else "deleted"
                raise Violation(f"'{self.path}' was {what} twice")

    def _is_undone_between(self, before: PathChange, change: PathChange) -> bool:
        return any(
            other.is_creation is not change.is_creation
            and other.asked_at < change.ended_at
            and other.ended_at > before.asked_at
            for other in self.changes
        )

    def refused(self, change: PathChange) -> None:
        """Nothing of it happened."""
        self.changes.remove(change)

    def may_have_lost(self, sent: SentMessage) -> bool:
        """The message may have been deleted with its queue."""
        return any(
            not change.is_creation and change.ended_at >= sent.asked_at
            for change in self.changes
        )

    def check_present(self, is_present: bool) -> None:
        """Raises Violation if the last change says otherwise."""
        confirmed = [one for one in self.changes if one.is_confirmed]
        last = max(confirmed, key=lambda one: one.ended_at, default=None)
        doubt = any(
            one is not last and one.ended_at > (0.0 if last is None else last.asked_at)
            for one in self.changes
        )
        must_be = last is not None and last.is_creation
        if not doubt and is_present is not must_be:
            raise Violation(f"'{self.path}' is there: {is_present}, and not {must_be}")


class EntityAudit:
    """Of all paths that come and go."""

    def __init__(self) -> None:
        self.paths = {path: PathAudit(path=path) for path in TEMPORARY}

    def may_have_lost(self, sent: SentMessage) -> bool:
        known = self.paths.get(sent.path)
        return known is not None and known.may_have_lost(sent)


class EntitySteps:
    """Of one client."""

    def __init__(self, means: Means, audit: EntityAudit, find: FindBroker) -> None:
        self._means = means
        self._audit = audit
        self._find = find

    async def step(self, visit: Visit) -> None:
        """Create a queue, or delete it; sometimes at two brokers at the same time."""
        random = self._means.random
        known = self._audit.paths[random.choice(TEMPORARY)]
        is_creation = random.random() < 0.6
        changing = [self._change(visit.connection, known, is_creation)]
        found = self._find(random)
        if found is not None and random.random() < 0.5:
            changing.append(self._change_elsewhere(found, known, is_creation))
        for error in await asyncio.gather(*changing, return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    async def _change_elsewhere(
        self, found: tuple[str, int], known: PathAudit, is_creation: bool
    ) -> None:
        visit = await visited(found, self._means.patience)
        try:
            await self._change(visit.connection, known, is_creation)
        finally:
            visit.connection.abort()

    async def _change(
        self, connection: ClientConnection, known: PathAudit, is_creation: bool
    ) -> None:
        arguments = {"path": known.path}
        if is_creation:
            is_partitioned = self._means.random.random() < 0.5
            properties = {**PROPERTIES, "enable_partitioning": is_partitioned}
            arguments["properties"] = json.dumps(properties)
        change = known.begin(is_creation=is_creation)
        operation = "create-queue" if is_creation else "delete-entity"
        try:
            async with asyncio.timeout(self._means.patience):
                await ask_namespace(connection, operation, arguments)
        except (EntityAlreadyExists, MessagingEntityNotFound) as error:
            known.refused(change)
            self._means.tell(f"{operation} {known.path}: {type(error).__name__}")
        except Troubles as error:
            self._means.tell(f"{operation} {known.path} is unknown: {error!r:.60}")
            if not isinstance(error, OSError | TimeoutError):
                check_error(error, known.path)
            raise
        else:
            self._means.tell(f"{operation} {known.path} is done")
            known.confirm(change)
