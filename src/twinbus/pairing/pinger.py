"""Asks an entity that has failed over whether it is back (P11).

Each process pings each such entity once per interval, until a ping is accepted.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Generic

from twinbus.pairing.entity_health import State
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.paired_entity import PairedEntity
from twinbus.pairing.ports import Door, M
from twinbus.pairing.reporting import Reporter
from twinbus.pairing.settings import PairSettings

_log = logging.getLogger(__name__)


class Pinger(Generic[M]):
    """The pings to one entity."""

    def __init__(
        self,
        entity: PairedEntity,
        door: Door[M],
        settings: PairSettings,
        report: Reporter,
        asks_for_patience: Callable[[Exception], bool],
    ) -> None:
        self._entity = entity
        self._door = door
        self._settings = settings
        self._report = report
        self._asks_for_patience = asks_for_patience
        self._pause_ms = settings.ping_primary_interval_ms

    async def run(self) -> None:
        """Ping until the entity is back."""
        try:
            while self._entity.state is State.FAILED_OVER:
                await asyncio.sleep(self._pause_ms / 1000)
                await self._ping()
        finally:
            await self._door.close()

    async def _ping(self) -> None:
        limit = self._settings.attempt_timeout_ms / 1000
        self._entity.ping_count += 1
        self._pause_ms = self._settings.ping_primary_interval_ms
        try:
            async with asyncio.timeout(limit):
                await self._door.ping(limit)
        except Exception as error:
            # Whatever the error is: nothing says that the entity is back.
            why = str(error) or type(error).__name__
            if self._asks_for_patience(error):
                self._pause_ms = max(self._pause_ms, self._settings.busy_wait_ms)
            _log.debug("ping of '%s' failed: %s", self._entity.path, why)
            self._entity.ping_failed(why)
            self._tell("failed")
        else:
            self._tell("accepted")
            self._entity.ping_succeeded()

    def _tell(self, outcome: str) -> None:
        self._report(
            PairEvent(
                kind=EventKind.PINGED, path=self._entity.path, text=outcome, count=1
            )
        )
