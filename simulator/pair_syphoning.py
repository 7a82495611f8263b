"""Sources and outlet of a simulated syphon: `pairing.syphon.ports` over two wires."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from simulator import pair_requests as requests
from simulator.life import Life
from simulator.pair_message import (
    PairMessage,
    Seen,
    Unreachable,
    kind_of,
    restore,
)
from simulator.pair_wire import Wire
from twinbus.errors import ServiceBusError
from twinbus.links.outcomes import (
    ABANDON,
    COMPLETE,
    DEAD_LETTER,
    DEFER,
    Settlement,
)
from twinbus.pairing.detour import restored_from
from twinbus.pairing.syphon.errors import SecondaryError
from twinbus.pairing.syphon.ports import (
    BacklogMessage,
    BacklogPage,
    BacklogQueue,
    Fault,
    Glimpse,
    Lease,
    Restored,
    RestoreRefusal,
)
from twinbus.pairing.syphon.reading import read

T = TypeVar("T")

_PAGE: Final = 20
"""Small, so that a backlog has several pages."""

_ANSWER_SECONDS: Final = 5.0
"""Time-out for any answer of the secondary."""


class SimulatedQueue(BacklogQueue):
    """A backlog queue with the same hash in every process: hashes of texts differ, and
    a seed must give the same run everywhere."""

    def __hash__(self) -> int:
        return self.created_at


class SyphonedMessage(BacklogMessage):
    """A message of a backlog queue, under a lock."""

    __slots__ = ("message", "origin", "token")

    def __init__(self, seen: Seen, token: bytes, origin: str) -> None:
        detour, fault = read(seen.message.properties)
        super().__init__(
            sequence_number=seen.number,
            enqueued_at=seen.enqueued_at,
            size_bytes=len(seen.message.uid),
            detour=detour,
            fault=fault,
            is_deferred=seen.state == "deferred",
        )
        self.message = seen.message
        self.token = token
        # Identifies the message in the primary's ledger.
        self.origin = origin


class SimulatedSource:
    """One backlog queue of the secondary."""

    def __init__(
        self,
        wire: Wire,
        queue: BacklogQueue,
        namespace: str,
        note_received: Callable[[str], None],
    ) -> None:
        self._note_received = note_received
        self.path = queue.path
        self._wire = wire
        self._generation = queue.created_at
        self._name = f"{namespace}/{queue.path}"

    async def receive(
        self, max_count: int, max_wait_seconds: float
    ) -> list[SyphonedMessage]:
        async def work(life: Life) -> list[requests.Taken]:
            taken = await requests.receive(life, self.path, max_count, max_wait_seconds)
            # It is locked even if the answer does not arrive.
            for seen, _ in taken:
                self._note_received(seen.message.uid)
            return taken

        limit = max_wait_seconds + _ANSWER_SECONDS
        taken = await self._ask(work, limit, ends_with_client=True)
        return [self._syphoned(seen, token) for seen, token in taken]

    def _syphoned(self, seen: Seen, token: bytes) -> SyphonedMessage:
        origin = restored_from(seen.number, self._generation, self._name)
        return SyphonedMessage(seen, token, origin)

    async def complete(self, messages: Sequence[SyphonedMessage]) -> None:
        await self._settle(messages, Settlement(COMPLETE))

    async def abandon(self, messages: Sequence[SyphonedMessage]) -> None:
        await self._settle(messages, Settlement(ABANDON))

    async def defer(self, messages: Sequence[SyphonedMessage]) -> None:
        await self._settle(messages, Settlement(DEFER))

    async def dead_letter(
        self, messages: Sequence[SyphonedMessage], fault: Fault
    ) -> None:
        why = Settlement(DEAD_LETTER, None, fault.reason, fault.description)
        await self._settle(messages, why)

    async def _settle(
        self, messages: Sequence[SyphonedMessage], settlement: Settlement
    ) -> None:
        tokens = [message.token for message in messages]

        async def work(life: Life) -> None:
            await requests.settle(life, self.path, tokens, settlement)

        if tokens:
            await self._ask(work)

    async def peek_deferred(self, first_number: int) -> BacklogPage:
        async def work(life: Life) -> list[Seen]:
            return await requests.peek(life, self.path, first_number, _PAGE)

        seen = await self._ask(work)
        return BacklogPage(
            glimpses=tuple(_glimpse(one) for one in seen if one.state == "deferred"),
            seen_count=len(seen),
            next_number=seen[-1].number + 1 if seen else None,
            first_active=next(
                (one.number for one in seen if one.state != "deferred"), None
            ),
        )

    async def take_deferred(self, numbers: Sequence[int]) -> list[SyphonedMessage]:
        async def work(life: Life) -> list[requests.Taken]:
            return await requests.take_deferred(life, self.path, numbers)

        return [self._syphoned(seen, token) for seen, token in await self._ask(work)]

    async def close(self) -> None:
        """Does nothing: there is no link, every request stands alone."""

    async def _ask(
        self,
        work: Callable[[Life], Awaitable[T]],
        limit: float = _ANSWER_SECONDS,
        *,
        ends_with_client: bool = False,
    ) -> T:
        return await ask_secondary(
            self._wire, work, limit, ends_with_client=ends_with_client
        )


async def ask_secondary(
    wire: Wire,
    work: Callable[[Life], Awaitable[T]],
    limit: float = _ANSWER_SECONDS,
    *,
    ends_with_client: bool = False,
) -> T:
    """Raises SecondaryError, also if there is no answer in time."""
    try:
        async with asyncio.timeout(limit):
            return await wire.ask(work, ends_with_client=ends_with_client)
    except (ServiceBusError, Unreachable, TimeoutError) as error:
        raise SecondaryError(str(error) or type(error).__name__) from error


class SimulatedSecondary:
    """The namespace with the backlog queues."""

    def __init__(
        self, name: str, wire: Wire, note_received: Callable[[str], None]
    ) -> None:
        self.name = name
        self._wire = wire
        self._note_received = note_received

    async def queues(self, prefix: str) -> list[BacklogQueue]:
        async def work(life: Life) -> list[BacklogQueue]:
            return [
                SimulatedQueue(queue.path, queue.created_at)
                for queue in life.namespace.queues()
                if queue.path.startswith(prefix)
            ]

        return await ask_secondary(self._wire, work)

    def source(self, queue: BacklogQueue) -> SimulatedSource:
        return SimulatedSource(self._wire, queue, self.name, self._note_received)

    async def lease(self, path: str) -> Lease:
        raise AssertionError("here the ledger alone keeps syphons apart")

    async def close(self) -> None:
        """Does nothing: there is no link, every request stands alone."""


class SimulatedOutlet:
    """Sends to the primary."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def restore(
        self, path: str, messages: Sequence[SyphonedMessage], timeout_seconds: float
    ) -> Restored:
        count = 0
        try:
            async with asyncio.timeout(timeout_seconds):
                for message in messages:
                    await self._send(path, message)
                    count += 1
        except (ServiceBusError, Unreachable, TimeoutError) as error:
            text = str(error) or type(error).__name__
            return Restored(count, RestoreRefusal(kind_of(error), text))
        return Restored(count)

    async def _send(self, path: str, message: SyphonedMessage) -> None:
        restored = self._restored(message)

        async def work(life: Life) -> None:
            await requests.send(life, path, [restored], restores=True)

        await self._wire.ask(work)

    def _restored(self, message: SyphonedMessage) -> PairMessage:
        assert message.detour is not None
        detour = replace(message.detour, time_to_live_ms=message.time_to_live_ms)
        return restore(message.message, detour, message.origin)

    async def credentials_fault(self, timeout_seconds: float) -> str:
        return ""

    async def is_reachable(self, timeout_seconds: float) -> bool:
        async def work(life: Life) -> None:
            """Does nothing: any answer will do."""

        try:
            async with asyncio.timeout(timeout_seconds):
                await self._wire.ask(work)
        except (ServiceBusError, Unreachable, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        """Does nothing: there is no link, every request stands alone."""


def _glimpse(seen: Seen) -> Glimpse:
    detour, _ = read(seen.message.properties)
    return Glimpse(seen.number, "" if detour is None else detour.path)
