"""Asks an entity that has failed over whether it is back (P11).

Each process pings each such entity once per interval, until a ping is accepted. The
send log has all pings: a primary that is away logs none of those that are sent to it.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Generic

from twinbus.pairing.entity_health import State
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.failures import WITHOUT_ANSWER
from twinbus.pairing.paired_entity import PairedEntity
from twinbus.pairing.ports import M
from twinbus.pairing.send_log import ACCEPTED, FAILED, UNKNOWN, SentCall

if TYPE_CHECKING:
    from twinbus.pairing.pair import Pair

_log = logging.getLogger(__name__)


class Pinger(Generic[M]):
    """The pings to one entity."""

    def __init__(self, pair: "Pair[M]", entity: PairedEntity) -> None:
        self._pair = pair
        self._entity = entity
        self._door = pair.primary.door(entity.path)
        self._settings = pair.settings
        self._pause_ms = pair.settings.ping_primary_interval_ms

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
            await self._ping_and_log(limit)
        except Exception as error:
            # Whatever the error is: nothing says that the entity is back.
            why = str(error) or type(error).__name__
            if self._pair.asks_for_patience(error):
                self._pause_ms = max(self._pause_ms, self._settings.busy_wait_ms)
            _log.debug("ping of '%s' failed: %s", self._entity.path, why)
            self._entity.ping_failed(why)
            self._tell("failed")
        else:
            self._tell("accepted")
            self._entity.ping_succeeded()

    async def _ping_and_log(self, limit: float) -> None:
        began_at, began = self._pair.clock.now(), self._pair.clock.monotonic()
        result, reason = ACCEPTED, None
        try:
            async with asyncio.timeout(limit):
                await self._door.ping(limit)
        except BaseException as error:
            result, reason = self._outcome(error)
            raise
        finally:
            if self._pair.send_log is not None:
                self._pair.send_log.note(
                    SentCall(
                        operation="ping",
                        result=result,
                        path=self._entity.path,
                        began_at=began_at,
                        took_ms=self._pair.clock.monotonic() - began,
                        # It is a message without an id.
                        send_ids=[None],
                        message_ids=[None],
                        session_ids=[None],
                        reason=reason,
                    )
                )

    def _outcome(self, error: BaseException) -> tuple[str, str]:
        """A ping whose answer never came may have been accepted all the same."""
        if isinstance(error, TimeoutError):
            return UNKNOWN, "no answer in time"
        if not isinstance(error, Exception):
            return UNKNOWN, "cancelled"
        dialect = self._pair.dialect
        is_doubtful = dialect.kind_of(error) in WITHOUT_ANSWER
        return UNKNOWN if is_doubtful else FAILED, dialect.reason_of(error)

    def _tell(self, outcome: str) -> None:
        self._pair.report(
            PairEvent(
                kind=EventKind.PINGED, path=self._entity.path, text=outcome, count=1
            )
        )
