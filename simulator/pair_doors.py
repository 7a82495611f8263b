"""Access to a simulated bus: implements `pairing.ports` over a wire."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simulator import pair_requests as requests
from simulator.life import Life
from simulator.pair_message import PairMessage, Seen
from simulator.pair_wire import Wire

_BATCH = 3
"""Small, so that diverted messages often need several sends."""


class SimulatedNamespace:
    """One side of a pair, as a process reaches it."""

    def __init__(self, name: str, wire: Wire) -> None:
        self.name = name
        self._wire = wire

    def door(self, path: str, link: Mapping[str, Any] | None = None) -> "SimulatedDoor":
        return SimulatedDoor(self._wire, path)


class SimulatedDoor:
    """Access to one entity; the caller has the time-outs, and cancels."""

    def __init__(self, wire: Wire, path: str) -> None:
        self._wire = wire
        self._path = path

    async def send(
        self, messages: Sequence[PairMessage], timeout_seconds: float
    ) -> None:
        # Copies, because a bus that gets them late must not see later changes.
        copies = [replace(message) for message in messages]

        async def work(life: Life) -> None:
            await requests.send(life, self._path, copies)

        await self._wire.ask(work)

    async def open(self, timeout_seconds: float) -> None:
        """Does nothing: there is no link, every request stands alone."""

    async def send_some(
        self, messages: Sequence[PairMessage], timeout_seconds: float
    ) -> int:
        some = messages[:_BATCH]
        await self.send(some, timeout_seconds)
        return len(some)

    async def schedule(
        self, messages: Sequence[PairMessage], due_at: int, timeout_seconds: float
    ) -> list[int]:
        copies = [replace(message, scheduled_at=due_at) for message in messages]

        async def work(life: Life) -> list[int]:
            return await requests.schedule(life, self._path, copies)

        return await self._wire.ask(work)

    async def cancel(self, numbers: Sequence[int], timeout_seconds: float) -> None:
        async def work(life: Life) -> None:
            await requests.cancel(life, self._path, numbers)

        await self._wire.ask(work)

    async def cancel_sent(
        self, send_ids: Sequence[bytes], timeout_seconds: float
    ) -> list[bool]:
        async def work(life: Life) -> list[bool]:
            return await requests.cancel_sent(life, self._path, send_ids)

        return await self._wire.ask(work)

    async def ping(self, timeout_seconds: float) -> None:
        async def work(life: Life) -> None:
            await requests.ping(life, self._path)

        await self._wire.ask(work)

    async def peek(
        self, from_number: int, max_count: int, timeout_seconds: float
    ) -> list[tuple[int, PairMessage]]:
        async def work(life: Life) -> list[Seen]:
            return await requests.peek(life, self._path, from_number, max_count)

        return [(seen.number, seen.message) for seen in await self._wire.ask(work)]

    async def close(self) -> None:
        """Does nothing: there is no link, every request stands alone."""
