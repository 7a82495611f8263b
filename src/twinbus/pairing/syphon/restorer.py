"""Restores messages of one entity, and does with those that fail what the table says.

Shared by the workers of all backlog queues, so that one of them learns for all that an
entity is closed. A message is completed only after the primary accepted it (P12).
"""

import logging
from collections.abc import Sequence
from typing import Generic

from twinbus.clock import Clock
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.reporting import Reporter
from twinbus.pairing.syphon.gates import Gates
from twinbus.pairing.syphon.ports import (
    BacklogSource,
    Fault,
    M,
    Outlet,
    Restored,
    RestoreRefusal,
)
from twinbus.pairing.syphon.primary_watch import PrimaryWatch
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.tally import Tally
from twinbus.pairing.syphon.treatments import (
    TREATMENTS,
    UNANSWERED,
    Treatment,
    fault_of,
)
from twinbus.pairing.syphon.troubles import WHOLE, Troubles

_log = logging.getLogger(__name__)


class Restorer(Generic[M]):
    """What all workers of a syphon share."""

    def __init__(
        self,
        outlet: Outlet[M],
        settings: SyphonSettings,
        clock: Clock,
        report: Reporter,
        tally: Tally | None = None,
        troubles: Troubles | None = None,
    ) -> None:
        self._outlet = outlet
        self.settings = settings
        self.clock = clock
        self.report = report
        self.gates = Gates(settings)
        self.watch = PrimaryWatch(outlet, settings, clock, report)
        # Of all syphons of a service, one after the other.
        self.tally = tally or Tally()
        self.troubles = troubles or Troubles(report)

    async def restore(
        self, source: BacklogSource[M], path: str, messages: Sequence[M]
    ) -> list[M]:
        """Restore messages in order. Returns those that have to wait, because the
        entity does not take them now. Raises SecondaryError."""
        left = list(messages)
        while left:
            began_at = self.clock.monotonic()
            restored = await self._attempt(path, left)
            if restored.count:
                await self._accepted(source, path, left[: restored.count])
                left = left[restored.count :]
            refusal = restored.refusal
            if refusal is None:
                continue
            if TREATMENTS[refusal.kind] is not Treatment.POISON:
                await self._close(path, refusal, began_at)
                break
            await self.bury(source, left[:1], fault_of(refusal), path)
            left = left[1:]
        return left

    async def _attempt(self, path: str, messages: Sequence[M]) -> Restored:
        timeout_seconds = self.settings.attempt_timeout_ms / 1000
        return await self._outlet.restore(path, messages, timeout_seconds)

    async def _accepted(
        self, source: BacklogSource[M], path: str, messages: Sequence[M]
    ) -> None:
        self.watch.accepted()
        self.troubles.end(WHOLE)
        if self.gates.of(path).open():
            self.report(PairEvent(kind=EventKind.UNPARKED, path=path))
        await source.complete(messages)
        self.tally.count_restored(len(messages), self.clock.monotonic())
        self.report(
            PairEvent(
                kind=EventKind.RESTORED,
                path=path,
                queue=source.path,
                count=len(messages),
            )
        )

    async def bury(
        self,
        source: BacklogSource[M],
        messages: Sequence[M],
        fault: Fault,
        path: str = "",
    ) -> None:
        """Dead-letter what can never be restored."""
        await source.dead_letter(messages, fault)
        self.tally.poison += len(messages)
        _log.warning(
            "%d messages of %s are dead-lettered as %s: %s",
            *(len(messages), source.path, fault.reason, fault.description),
        )
        self.report(
            PairEvent(
                kind=EventKind.POISON,
                path=path,
                queue=source.path,
                text=fault.reason,
                count=len(messages),
            )
        )

    async def _close(self, path: str, refusal: RestoreRefusal, began_at: int) -> None:
        """The entity, or the whole primary, does not take messages now."""
        gate = self.gates.of(path)
        if refusal.kind in UNANSWERED and not await self.watch.doubt(began_at):
            return
        if not gate.close(refusal, self.clock.monotonic()):
            return
        level = logging.WARNING
        if TREATMENTS[refusal.kind] is Treatment.COMPLAIN:
            level = logging.ERROR
        _log.log(level, "%s on the primary is parked: %s", path, refusal.text)
        self.report(
            PairEvent(kind=EventKind.PARKED, path=path, text=refusal.kind.value)
        )
