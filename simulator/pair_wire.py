"""The connection between paired processes and one bus, and its troubles.

| trouble | what a process sees               | what the bus sees                     |
|---------|-----------------------------------|---------------------------------------|
| gone    | a refused connection              | nothing                               |
| frozen  | nothing, until its own time-out   | the request, when the trouble is over |
| deaf    | nothing, or a lost connection     | the request, and answers it           |
| lossy   | the same, now and then            | the request, or nothing               |
| slow    | an answer after a while           | the request, a while later            |
| busy    | a server-busy error               | nothing                               |

A request is processed even if its client no longer waits for the answer: a client that
gives up cannot withdraw its request.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, TypeVar

from simulator.life import Life
from simulator.pair_message import Unreachable
from twinbus.errors import ServerBusy, ServiceBusError

T = TypeVar("T")

GONE: Final = "gone"
FROZEN: Final = "frozen"
DEAF: Final = "deaf"
LOSSY: Final = "lossy"
SLOW: Final = "slow"
BUSY: Final = "busy"

_DELAYS: Final = (0.0, 0.0, 0.001, 0.02)
_SLOW_DELAYS: Final = (0.2, 0.8, 2.0, 5.0)
_LOSS: Final = 0.3


class Wire:
    """All connections to one bus."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._life: Life | None = None
        # Current troubles: how many of each kind.
        self._troubles: dict[str, int] = {}
        self._thawed = asyncio.Event()
        self._thawed.set()
        # Answers that clients wait for.
        self._awaited: set[asyncio.Future[Any]] = set()

    # --- what happens to it -----------------------------------------------------

    def connect(self, life: Life) -> None:
        """The bus is up."""
        self._life = life

    def cut(self, *, silently: bool) -> None:
        """The bus is down; `silently`: clients get no notice, as after a power
        failure."""
        self._life = None
        if not silently:
            for answer in list(self._awaited):
                _tell(answer, Unreachable("the connection was lost"))

    def begin(self, trouble: str) -> None:
        self._troubles[trouble] = self._troubles.get(trouble, 0) + 1
        if trouble == FROZEN:
            self._thawed.clear()

    def end(self, trouble: str) -> None:
        self._troubles[trouble] -= 1
        if not self._has(FROZEN):
            self._thawed.set()

    def _has(self, trouble: str) -> bool:
        return self._troubles.get(trouble, 0) > 0

    # --- what clients do --------------------------------------------------------

    async def ask(
        self, work: Callable[[Life], Awaitable[T]], *, ends_with_client: bool = False
    ) -> T:
        """Let the bus process a request, and wait for its answer.

        Raises Unreachable and the bus's errors; hangs where a network would.
        """
        await self._go()
        life = self._life
        if life is None:
            raise Unreachable("nobody listens there")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._awaited.add(answer)
        task = life.request(self._serve(life, work, answer))
        try:
            result = await answer
        except asyncio.CancelledError:
            if ends_with_client:
                task.cancel()
            raise
        finally:
            self._awaited.discard(answer)
        await self._come_back()
        return result

    async def _go(self) -> None:
        if self._has(GONE):
            raise Unreachable("the connection was refused")
        if self._has(BUSY):
            raise ServerBusy("simulated")
        if self._has(LOSSY) and self._random.random() < _LOSS:
            await self._lose()
        await self._delay()

    async def _come_back(self) -> None:
        if self._has(DEAF) or (self._has(LOSSY) and self._random.random() < _LOSS):
            await self._lose()
        await self._delay()

    async def _lose(self) -> None:
        """The request or answer is lost, with or without its connection."""
        if self._random.random() < 0.5:
            raise Unreachable("the connection was lost")
        await asyncio.get_running_loop().create_future()

    async def _delay(self) -> None:
        delays = _SLOW_DELAYS if self._has(SLOW) else _DELAYS
        delay = self._random.choice(delays)
        if delay:
            await asyncio.sleep(delay)

    async def _serve(
        self,
        life: Life,
        work: Callable[[Life], Awaitable[T]],
        answer: asyncio.Future[T],
    ) -> None:
        await self._thawed.wait()
        try:
            result = await work(life)
        except ServiceBusError as error:
            _tell(answer, error)
        else:
            if not answer.done():
                answer.set_result(result)


def _tell(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
