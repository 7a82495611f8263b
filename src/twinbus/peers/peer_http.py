"""HTTP requests to other brokers: for bulk requests, whose bodies have megabytes.

A connection has one request at a time, and is used again. There are as many as there
are requests at the same time, which the limits of their clients bound.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import h11

from twinbus.clock import Clock
from twinbus.errors import ServerBusy
from twinbus.peers.reach import PeerReach, read_and_write

_CONNECT_SECONDS: Final = 3.0

_IDLE_MS: Final = 30_000
"""An idle connection is not used after so long: the other side may be closing it."""

_IDLE_COUNT: Final = 8
"""Idle connections to one broker that are kept."""

_READ_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAnswer:
    """What another broker answered."""

    status: int
    # Names in lower case.
    headers: Mapping[str, str]
    body: bytes


class _PeerStream:
    """One connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._engine = h11.Connection(h11.CLIENT)
        self.idle_since = 0

    async def exchange(
        self, target: str, headers: Mapping[str, str], body: bytes
    ) -> PeerAnswer:
        """Raises OSError, h11.ProtocolError."""
        head = [*headers.items(), ("content-length", str(len(body)))]
        self._send(h11.Request(method="POST", target=target, headers=head))
        self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())
        await self._writer.drain()
        answer = await self._next()
        if not isinstance(answer, h11.Response):
            raise ConnectionResetError("it ended without an answer")
        content = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            content += event.data
        if not isinstance(event, h11.EndOfMessage):
            raise ConnectionResetError("it ended in the middle of an answer")
        return PeerAnswer(
            status=answer.status_code,
            headers={
                name.decode("ascii"): value.decode("latin-1")
                for name, value in answer.headers
            },
            body=bytes(content),
        )

    def _send(self, event: h11.Event) -> None:
        data = self._engine.send(event)
        if data:
            self._writer.write(data)

    async def _next(self) -> object:
        while (event := self._engine.next_event()) is h11.NEED_DATA:
            self._engine.receive_data(await self._reader.read(_READ_BYTES))
        return event

    def is_reusable(self) -> bool:
        """Prepare for the next request, if there can be one."""
        if self._engine.our_state is h11.DONE and self._engine.their_state is h11.DONE:
            self._engine.start_next_cycle()
            return True
        return False

    def abort(self) -> None:
        self._writer.transport.abort()


class PeerHttp:
    """Connections to other brokers, by address."""

    def __init__(self, clock: Clock, reach: PeerReach) -> None:
        self._clock = clock
        self._reach = reach
        self._idle: dict[str, list[_PeerStream]] = {}

    async def post(
        self,
        address: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
    ) -> PeerAnswer:
        """Raises ServerBusy if there is no answer; then the outcome is unknown."""
        stream: _PeerStream | None = None
        try:
            async with asyncio.timeout(timeout_seconds):
                stream = await self._stream(address)
                answer = await stream.exchange(
                    target, {"host": address, **headers}, body
                )
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            raise ServerBusy(
                "The broker that has the entity did not answer. Try again: if it is "
                "lost, another one takes over."
            ) from error
        else:
            self._keep(address, stream)
            stream = None
            return answer
        finally:
            if stream is not None:
                stream.abort()

    async def _stream(self, address: str) -> _PeerStream:
        idle = self._idle.get(address, [])
        while idle:
            stream = idle.pop()
            if self._clock.monotonic() - stream.idle_since < _IDLE_MS:
                return stream
            stream.abort()
        async with asyncio.timeout(_CONNECT_SECONDS):
            return _PeerStream(*await read_and_write(self._reach, address))

    def _keep(self, address: str, stream: _PeerStream) -> None:
        idle = self._idle.setdefault(address, [])
        if len(idle) < _IDLE_COUNT and stream.is_reusable():
            stream.idle_since = self._clock.monotonic()
            idle.append(stream)
        else:
            stream.abort()

    def forget_idle(self) -> None:
        """Close connections that were not used for long: their brokers may be gone."""
        now = self._clock.monotonic()
        for address, idle in list(self._idle.items()):
            while idle and now - idle[0].idle_since >= _IDLE_MS:
                idle.pop(0).abort()
            if not idle:
                del self._idle[address]

    def close(self) -> None:
        for idle in self._idle.values():
            for stream in idle:
                stream.abort()
        self._idle.clear()
