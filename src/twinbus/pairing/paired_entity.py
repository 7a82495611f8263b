"""One entity of the primary: its health, the senders that wait, and its counters.

The shell around `EntityHealth`: it has the clock and a timer, tells the pair of
every change of state, and wakes the senders that wait for a change.
"""

import asyncio
from collections.abc import Callable
from typing import final

from twinbus.clock import Clock
from twinbus.pairing.entity_health import EntityHealth, State
from twinbus.pairing.status import EntityStatus


@final
class PairedEntity:
    """Shared by all senders of a pair that send to it (P5)."""

    def __init__(
        self,
        path: str,
        failover_interval_ms: int,
        clock: Clock,
        on_change: Callable[["PairedEntity"], None],
    ) -> None:
        self.path = path
        self._health = EntityHealth(failover_interval_ms)
        self._clock = clock
        self._on_change = on_change
        # Set, and replaced, whenever the state changes.
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self.diverted_count = 0
        self.ping_count = 0

    @property
    def state(self) -> State:
        return self._health.state

    @property
    def last_failure(self) -> str:
        return self._health.last_failure

    def is_diverted(self) -> bool:
        self._let_time_pass()
        return self.state is State.FAILED_OVER

    def until_failover_ms(self) -> int | None:
        """How long it stays suspect without a success; None if it is not suspect."""
        if self.state is not State.SUSPECT:
            return None
        return max(self._health.fails_over_at - self._clock.monotonic(), 0)

    async def changed(self, timeout_ms: int) -> None:
        """Wait until the state changes, at most so long."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            pass

    # --- what happens -----------------------------------------------------------

    def send_succeeded(self) -> None:
        before = self.state
        self._health.send_succeeded(self._clock.monotonic())
        self._note(before)

    def send_failed(self, why: str) -> None:
        before = self.state
        self._health.send_failed(why, self._clock.monotonic())
        self._note(before)

    def ping_succeeded(self) -> None:
        before = self.state
        self._health.ping_succeeded(self._clock.monotonic())
        self._note(before)

    def ping_failed(self, why: str) -> None:
        self._health.last_failure = why
        self._health.ping_failed(self._clock.monotonic())

    def _let_time_pass(self) -> None:
        before = self.state
        self._health.let_time_pass(self._clock.monotonic())
        self._note(before)

    def _note(self, before: State) -> None:
        if self.state is before:
            return
        self._set_timer()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._on_change(self)

    def _set_timer(self) -> None:
        """A timer ends the failover interval, because maybe nobody sends then."""
        self.stop()
        left_ms = self.until_failover_ms()
        if left_ms is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(left_ms / 1000 + 0.001, self._timer_ended)

    def _timer_ended(self) -> None:
        self._let_time_pass()
        if self.state is State.SUSPECT:
            self._set_timer()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def status(self) -> EntityStatus:
        return EntityStatus(
            path=self.path,
            state=self.state.value,
            since_seconds=(self._clock.monotonic() - self._health.since) / 1000
            if self._health.since
            else 0.0,
            failovers=self._health.failover_count,
            diverted=self.diverted_count,
            pings=self.ping_count,
            last_failure=self._health.last_failure,
        )
