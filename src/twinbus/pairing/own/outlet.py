"""Sends to a twinbus primary: batches, one at a time for each entity.

A batch is accepted or refused as a whole, so order is kept even if it fails. If it is
refused for good because of a message in it, its messages are sent one by one to find
out which.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from twinbus.client.connection import ClientConnection
from twinbus.client.errors import ClientError
from twinbus.client.namespace_connection import NamespaceConnection, connected
from twinbus.client.sender import ClientSender
from twinbus.clock import Clock
from twinbus.encoding.batch import BATCH_FORMAT
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.own.failures import kind_of
from twinbus.pairing.own.messages import OwnMessage, envelope, restored
from twinbus.pairing.syphon.ports import Restored, RestoreRefusal
from twinbus.pairing.syphon.treatments import CREDENTIALS, TREATMENTS, Treatment

_log = logging.getLogger(__name__)

_BATCH_BYTES: Final = 256 * 1024
"""The size of a batch if the link does not tell the limit."""

_CLOSE_SECONDS: Final = 2.0

_FAILURES: Final = (ClientError, OSError, TimeoutError)


class OwnOutlet:
    """`Outlet` into a twinbus namespace."""

    def __init__(self, connection: NamespaceConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._senders: dict[str, ClientSender] = {}
        # Two first sends to an entity share one link.
        self._mutexes: dict[str, asyncio.Lock] = {}
        # Links that were given up and are being detached.
        self._closing: set[asyncio.Task[None]] = set()

    async def restore(
        self, path: str, messages: Sequence[OwnMessage], timeout_seconds: float
    ) -> Restored:
        now = self._clock.now()
        encoded = [restored(message, now) for message in messages]
        count = 0
        try:
            async with asyncio.timeout(timeout_seconds):
                sender = await self._sender(path)
                for portion in _portions(encoded, sender.max_message_bytes):
                    count += await self._send(sender, portion)
        except _Refused as refused:
            return Restored(count + refused.count, refused.refusal)
        except _FAILURES as error:
            kind = kind_of(error)
            if kind is FailureKind.TIMEOUT:
                self._give_up(path)
            return Restored(
                count, RestoreRefusal(kind, str(error) or "no answer in time")
            )
        return Restored(count)

    async def _send(self, sender: ClientSender, portion: list[bytes]) -> int:
        """Send all of them; returns how many that is. Raises _Refused if one is refused
        for good, and the errors of the client."""
        if len(portion) == 1:
            return await self._send_singly(sender, portion)
        payload = b"".join(map(envelope, portion))
        try:
            await sender.send_many([payload], message_format=BATCH_FORMAT)
        except ClientError as error:
            if TREATMENTS[kind_of(error)] is not Treatment.POISON:
                raise
            return await self._send_singly(sender, portion)
        return len(portion)

    async def _send_singly(self, sender: ClientSender, portion: list[bytes]) -> int:
        for count, payload in enumerate(portion):
            try:
                await sender.send(payload)
            except _FAILURES as error:
                raise _Refused(
                    count, RestoreRefusal(kind_of(error), str(error))
                ) from None
        return len(portion)

    async def _sender(self, path: str) -> ClientSender:
        key = path.lower()
        async with self._mutexes.setdefault(key, asyncio.Lock()):
            sender = self._senders.get(key)
            if sender is None or not sender.usable:
                connection: ClientConnection = await self._connection.get(path)
                sender = self._senders[key] = await connection.sender(path)
            return sender

    def _give_up(self, path: str) -> None:
        """Do not use a link again on which a call did not end."""
        sender = self._senders.pop(path.lower(), None)
        if sender is not None and sender.usable:
            task = asyncio.create_task(_detach(sender))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def is_reachable(self, timeout_seconds: float) -> bool:
        """Try a new connection: the one in use did not answer, and may be dead without
        having noticed."""
        self._connection.forget()
        try:
            connection = await connected(self._connection.address, timeout_seconds)
        except _FAILURES as error:
            _log.info("%s: %s", self._connection.address.text, error)
            return False
        await connection.close(timeout_seconds=_CLOSE_SECONDS)
        return True

    async def credentials_fault(self, timeout_seconds: float) -> str:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._connection.get()
        except _FAILURES as error:
            return str(error) if kind_of(error) in CREDENTIALS else ""
        return ""

    async def close(self) -> None:
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._connection.close()


class _Refused(Exception):
    """A message of a portion was refused, behind `count` that were accepted."""

    def __init__(self, count: int, refusal: RestoreRefusal) -> None:
        super().__init__(refusal.text)
        self.count = count
        self.refusal = refusal


async def _detach(sender: ClientSender) -> None:
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await sender.close()
    except (ClientError, TimeoutError) as error:
        _log.debug("a link was not detached in order: %s", error)


def _portions(encoded: Sequence[bytes], max_bytes: int) -> Iterator[list[bytes]]:
    """Split the messages into batches; each has at least one."""
    limit = min(max_bytes or _BATCH_BYTES, _BATCH_BYTES)
    portion: list[bytes] = []
    size = 0
    for payload in encoded:
        # Descriptor, constructor and size of a section.
        needed = len(payload) + 8
        if portion and size + needed > limit:
            yield portion
            portion, size = [], 0
        portion.append(payload)
        size += needed
    if portion:
        yield portion
