"""When one client of a pair is closed, the other one is closed, too (P14).

An application that closes one of the two clients has five seconds to close the other.
Then the pair closes it, and pending calls fail with an error that says so. If both are
closed in time, the pair ends without an error. Only a process that hosts a syphon does
this; without one, each client is left to its owner.
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
        """`on_fault` is called with the side to close, and why; without a grace,
        never."""
        self._on_both_ended = on_both_ended
        self._on_fault = on_fault
        self._grace_seconds = grace_seconds
        self._ended: dict[Side, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        # The tasks that close the other side; kept here, so that they are not
        # garbage-collected half-way.
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
        """The pair is being closed: from now on, a closed client is no fault."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
