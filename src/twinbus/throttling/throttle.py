"""Refuses requests while a threshold is passed.

Once per second the process and its stores are measured; a few times per second the
credits are topped up. The result stays with the owners of the stores, where each send
looks anyway (`Home.refuses_until`), and here, where doors look before a request. So a
message costs nothing more for it.

A store that is too slow or too full refuses what is sent to it. A partitioned entity is
in several: it goes on with the others, and is throttled later than an entity that is in
one. Receivers and settlements go on: they take messages away.
"""

import logging
from collections.abc import Sequence
from typing import Final

from twinbus.clock import Clock
from twinbus.errors import ServerBusy
from twinbus.owner.store_owner import StoreOwner
from twinbus.throttling.credits import Credits
from twinbus.throttling.gauges import ProcessGauge, free_bytes
from twinbus.throttling.readings import StoreReading
from twinbus.throttling.thresholds import Thresholds
from twinbus.throttling.verdict import process_reason, rate_reason, store_reason

_log = logging.getLogger(__name__)

_MEASURE_MS: Final = 1_000
_HOLD_MS: Final = 1_500
"""How long a refusal holds: longer than the time to the next measure."""


class Throttle:
    """Of one server."""

    def __init__(
        self,
        thresholds: Thresholds,
        owners: Sequence[StoreOwner],
        namespace: str,
        clock: Clock,
    ) -> None:
        self._thresholds = thresholds
        self._owners = owners
        self._namespace = namespace
        self._gauge = ProcessGauge()
        self._credits: Credits | None = None
        if thresholds.operations_per_second:
            self._credits = Credits(
                *(thresholds.operations_per_second, thresholds.burst),
                clock.monotonic(),
            )
        self._clock = clock
        self._measured_at = clock.monotonic()
        # Why the process, and each store, refuse requests at present.
        self._process: str | None = None
        self._stores: dict[StoreOwner, str] = {}
        self._rate: str | None = None

    @property
    def reason(self) -> str | None:
        """Why all requests are refused at present."""
        return self._process or self._rate

    def check(self, entity: str) -> None:
        """For requests that are not sends. Raises ServerBusy."""
        if self.reason is not None:
            raise ServerBusy(self.reason, entity_path=entity)

    def spent(self, count: int) -> None:
        """So many operations were committed."""
        if self._credits is not None:
            self._credits.spend(count)
            if self._credits.is_used_up:
                self._look_at_rate()
                self._apply(self._clock.now())

    def tick(self) -> None:
        monotonic = self._clock.monotonic()
        if self._credits is not None:
            self._credits.top_up(monotonic)
            self._look_at_rate()
        if monotonic - self._measured_at >= _MEASURE_MS:
            self._measured_at = monotonic
            self._measure(monotonic)
        self._apply(self._clock.now())

    def _apply(self, now: int) -> None:
        for owner in self._owners:
            reason = self._process or self._rate or self._stores.get(owner)
            if reason is None:
                owner.room.refuse_no_more()
            else:
                owner.room.refuse_for(reason, now + _HOLD_MS)

    def _measure(self, monotonic: int) -> None:
        reading = self._gauge.read(monotonic)
        was_busy = self._process is not None
        self._process = process_reason(reading, self._thresholds, was_busy)
        _tell("the server", was_busy, self._process)
        for owner in self._owners:
            self._measure_store(owner, monotonic)

    def _measure_store(self, owner: StoreOwner, monotonic: int) -> None:
        location = owner.store.location
        reading = StoreReading(
            commit_ms=0
            if owner.health.meter is None
            else owner.health.meter.commit_ms(monotonic),
            free_bytes=free_bytes(location)
            if self._thresholds.free_megabytes
            else None,
        )
        was_busy = owner in self._stores
        reason = store_reason(reading, self._thresholds, was_busy)
        _tell(location, was_busy, reason)
        if reason is not None:
            self._stores[owner] = reason
        elif was_busy:
            del self._stores[owner]

    def _look_at_rate(self) -> None:
        assert self._credits is not None
        was_busy = self._rate is not None
        self._rate = None
        if self._credits.is_used_up:
            owed = self._credits.owed
            self._rate = rate_reason(self._namespace, self._thresholds, owed)
        _tell(f"namespace {self._namespace}", was_busy, self._rate)


def _tell(what: str, was_busy: bool, reason: str | None) -> None:
    if reason is not None and not was_busy:
        _log.warning("%s is throttled: %s", what, reason)
    elif reason is None and was_busy:
        _log.warning("%s is throttled no more", what)
