"""A session that a command receives from stays locked while no message comes."""

import asyncio
from functools import partial
from typing import Final, final

from twinbus.amqp.events import MessageReceived
from twinbus.amqp.messaging import Source
from twinbus.amqp.types import Described, Symbol
from twinbus.cli.messages.namespace_side import NamespaceSide
from twinbus.client.management import ask
from twinbus.client.receiver import ClientReceiver

SESSION_FILTER: Final = Symbol("com.microsoft:session-filter")
_LOCKED_UNTIL: Final = "com.microsoft:locked-until-utc"

_UNIX_EPOCH_TICKS: Final = 621_355_968_000_000_000
"""1970 in .NET's ticks, as the service tells when the lock ends."""

_TICKS_PER_MS: Final = 10_000
_LEAST_SECONDS: Final = 1.0
_MOST_SECONDS: Final = 60.0
"""Bounds of the time between two renewals, if the clocks of both sides differ."""


@final
class KeptSession:
    """The session of one receiver."""

    def __init__(
        self, side: NamespaceSide, entity: str, receiver: ClientReceiver
    ) -> None:
        self._side = side
        self._entity = entity
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        ticks = receiver.properties.get(_LOCKED_UNTIL)
        until = ticks if isinstance(ticks, int) else _UNIX_EPOCH_TICKS
        self._renew_at = self._due_at((until - _UNIX_EPOCH_TICKS) // _TICKS_PER_MS)

    def _due_at(self, locked_until: int) -> float:
        """At half of the time that is left."""
        left = (locked_until - self._side.clock.now()) / 2000
        return self._loop.time() + min(max(left, _LEAST_SECONDS), _MOST_SECONDS)

    async def next_batch(
        self, most: int, wait_seconds: float | None
    ) -> list[MessageReceived]:
        """Empty if none came in time; None: waits for ever. Raises errors of the
        client."""
        now = self._loop.time()
        ends_at = None if wait_seconds is None else now + wait_seconds
        while True:
            if self._renew_at <= self._loop.time():
                await self._renew()
            until = self._renew_at if ends_at is None else min(self._renew_at, ends_at)
            found = await self._receiver.receive_batch(
                most, timeout_seconds=max(until - self._loop.time(), 0)
            )
            if found or (ends_at is not None and self._loop.time() >= ends_at):
                return found

    async def _renew(self) -> None:
        connection = await self._side.connection(self._entity)
        body: dict[object, object] = {"session-id": self._session_id()}
        answer = await self._side.patiently(
            partial(ask, connection, self._entity, "renew-session-lock", body)
        )
        until = answer.get("expiration")
        self._renew_at = self._due_at(until if isinstance(until, int) else 0)

    def _session_id(self) -> object:
        """As the server has granted it: the next one has a name only then."""
        source = self._receiver.source
        assert isinstance(source, Source)
        granted = (source.filter or {}).get(SESSION_FILTER)
        return granted.value if isinstance(granted, Described) else granted
