"""The backlog queues of a twinbus secondary.

Its own administration finds them, which needs the Manage right. A `listing` replaces
that: a pair gives one that uses its administration client. Then the Listen right is
enough here.
"""

import json

from twinbus.client.management import ask_namespace
from twinbus.client.namespace_connection import NamespaceConnection
from twinbus.clock import Clock
from twinbus.errors import EntityAlreadyExists
from twinbus.pairing.own.failures import secondary_errors
from twinbus.pairing.own.lease import OwnLease
from twinbus.pairing.own.source import OwnSource
from twinbus.pairing.syphon.ports import BacklogQueue, Listing


class OwnSecondary:
    """`Secondary` for a twinbus namespace."""

    def __init__(
        self,
        connection: NamespaceConnection,
        clock: Clock,
        name: str | None = None,
        listing: Listing | None = None,
    ) -> None:
        self.name = name or connection.address.name
        self._connection = connection
        self._clock = clock
        self._listing = listing

    async def queues(self, prefix: str) -> list[BacklogQueue]:
        if self._listing is not None:
            return await self._listing(prefix)
        async with secondary_errors():
            connection = await self._connection.get()
            entities = await ask_namespace(connection, "list-entities", {})
        return [
            BacklogQueue(entity["path"], entity["created_at"])
            for entity in entities
            if entity["kind"] == "queue"
            and entity["path"].lower().startswith(prefix.lower())
        ]

    def source(self, queue: BacklogQueue) -> OwnSource:
        return OwnSource(self._connection, queue, self.name, self._clock)

    async def lease(self, path: str) -> OwnLease:
        arguments = {
            "path": path,
            "properties": json.dumps({"requires_session": True}),
        }
        async with secondary_errors():
            connection = await self._connection.get()
            try:
                await ask_namespace(connection, "create-queue", arguments)
            except EntityAlreadyExists:
                pass
        return OwnLease(self._connection, path)

    async def close(self) -> None:
        await self._connection.close()
