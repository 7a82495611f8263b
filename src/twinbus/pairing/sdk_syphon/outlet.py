"""The way into any primary, over the SDK: batches, one at a time for each entity."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from azure.servicebus import ServiceBusMessage

from twinbus.clock import Clock
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.sdk.credentials import check_primary
from twinbus.pairing.sdk.door import SdkDoor
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.sdk.messages import outgoing_copy, unstamp
from twinbus.pairing.sdk.namespace import SdkNamespace
from twinbus.pairing.sdk_syphon.messages import SdkMessage, restored
from twinbus.pairing.syphon.ports import Restored, RestoreRefusal
from twinbus.pairing.syphon.treatments import TREATMENTS, Treatment

_SINGLE: Final = 1


class SdkOutlet:
    """`Outlet` into any namespace; `reach` tells whether that answers at all."""

    def __init__(
        self,
        namespace: SdkNamespace,
        reach: Callable[[float], Awaitable[bool]],
        clock: Clock,
    ) -> None:
        self._namespace = namespace
        self._reach = reach
        self._clock = clock
        self._doors: dict[str, SdkDoor] = {}
        # A door is for one user at a time.
        self._mutexes: dict[str, asyncio.Lock] = {}

    async def restore(
        self, path: str, messages: Sequence[SdkMessage], timeout_seconds: float
    ) -> Restored:
        key = path.lower()
        now = self._clock.now()
        found = [restored(message, now) for message in messages]
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._mutexes.setdefault(key, asyncio.Lock()).acquire()
        except TimeoutError:
            return Restored(0, RestoreRefusal(FailureKind.TIMEOUT, f"'{path}' is slow"))
        try:
            door = self._doors.setdefault(key, self._namespace.door(path))
            return await _restore(door, found, timeout_seconds)
        finally:
            self._mutexes[key].release()

    async def is_reachable(self, timeout_seconds: float) -> bool:
        return await self._reach(timeout_seconds)

    async def credentials_fault(self, timeout_seconds: float) -> str:
        try:
            await check_primary(self._namespace, timeout_seconds)
        except Exception as error:
            return str(error)
        return ""

    async def close(self) -> None:
        for door in self._doors.values():
            await door.close()
        await self._namespace.close()


async def _restore(
    door: SdkDoor, messages: list[ServiceBusMessage], timeout_seconds: float
) -> Restored:
    """In batches; if a batch is refused for a message in it, one by one. A message that
    is too large alone goes without the ids of twinbus: a primary that has no head-room
    for them gets nothing from them, and it was small enough before its detour (P10)."""
    count = 0
    most = len(messages)
    bare_at = -1
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + timeout_seconds
    while count < len(messages):
        rest = messages[count : count + most]
        left_seconds = max(ends_at - loop.time(), 0.001)
        try:
            count += await door.send_some(rest, left_seconds)
        except Exception as error:
            kind = kind_of(error)
            if TREATMENTS[kind] is Treatment.POISON and len(rest) > _SINGLE:
                most = _SINGLE
                continue
            if kind is FailureKind.TOO_LARGE and bare_at != count:
                bare_at = count
                messages[count] = _bare(messages[count])
                continue
            return Restored(
                count, RestoreRefusal(kind, str(error) or "no answer in time")
            )
    return Restored(count)


def _bare(message: ServiceBusMessage) -> ServiceBusMessage:
    copy = outgoing_copy(message)
    unstamp(copy)
    return copy
