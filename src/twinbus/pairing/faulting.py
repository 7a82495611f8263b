"""When one side of a pair ends, so must the other (P14).

An application that closes one of the two clients has five seconds to close the other.
Otherwise the other is closed for it, and what is pending fails with an error that says
so. If it follows in time, the pair ends quietly. It is the syphon that closes: where
none is hosted, each client is left to its owner.
"""

import asyncio
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, final


class Side(Enum):
    """Which namespace of a pair."""

    PRIMARY = "primary"
    SECONDARY = "secondary"

    @property
    def other(self) -> "Side":
        return Side.SECONDARY if self is Side.PRIMARY else Side.PRIMARY


@final
class FaultWatch:
    """Waits for the ends of both sides. Lives on one event loop."""

    def __init__(
        self,
        *,
        on_both_ended: Callable[[], Coroutine[Any, Any, None]],
        on_fault: Callable[[Side, str], Coroutine[Any, Any, None]],
        grace_seconds: float | None,
    ) -> None:
        """`on_fault` is told the side to be closed, and why; never, without a grace."""
        self._on_both_ended = on_both_ended
        self._on_fault = on_fault
        self._grace_seconds = grace_seconds
        self._ended: dict[Side, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        # What follows from an end; kept, so that it is not lost half-way.
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def side_ended(self, side: Side, why: str) -> None:
        """The client of that side was closed, or failed for good."""
        if self._is_over or side in self._ended:
            return
        self._ended[side] = why
        if side.other in self._ended:
            self.disarm()
            self._start(self._on_both_ended())
        elif self._grace_seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._grace_seconds, self._fault, side)

    def _fault(self, ended: Side) -> None:
        self.disarm()
        text = (
            f"{self._ended[ended]}, and the {ended.other.value} did not follow within "
            f"{self._grace_seconds:g} seconds: the pair is closed."
        )
        self._start(self._on_fault(ended.other, text))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.get_running_loop().create_task(work)

    def disarm(self) -> None:
        """The pair is closed in order; ends of clients mean nothing any more."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
