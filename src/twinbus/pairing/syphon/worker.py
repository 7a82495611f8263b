"""Empties one backlog queue.

Theory of operation. A round has two halves. The first half is for deferred messages: if
an entity takes messages again, one page of its deferred messages is restored; if it is
time to check whether it does, one message is tried. The second half is for new
messages: a batch is received and sorted by entity, and all entities are served at the
same time, each in order. If an entity does not take its messages now, they are
deferred, and so are all later ones, until its last deferred message is restored. So
order is kept within an entity, and entities do not wait for each other.

A round has few messages, and each attempt has a time limit, so locks last longer than a
round and are never renewed. If the primary goes away, the received messages are given
back.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Generic, TypeVar

from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.syphon.deferrals import Deferrals
from twinbus.pairing.syphon.errors import PrimaryAway, SecondaryError
from twinbus.pairing.syphon.gates import Gate
from twinbus.pairing.syphon.pace import Pace
from twinbus.pairing.syphon.ports import BacklogSource, Glimpse, M, RestoreRefusal
from twinbus.pairing.syphon.restorer import Restorer
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.treatments import fault_of
from twinbus.pairing.syphon.triage import Triage

_log = logging.getLogger(__name__)

T = TypeVar("T")

_UNTOUCHED_RUN: Final = 2_500
"""After so many messages in a row that are not deferred, the search for deferred ones
ends: several syphons may hold as many at once, and none has been further. In the next
fragment of a partitioned queue it begins anew."""

_FRAGMENT_BITS: Final = 48
"""The bits of a sequence number above these are the index of its fragment."""

_SIDE_BATCH_COUNT: Final = 100
"""New messages between two pages of deferred ones: fewer than a page has, so that
messages are not deferred faster than they are restored."""

_PROBES_AT_A_TIME: Final = 50
"""Closed entities that are tried at once; each needs a page of deferred messages."""

_SHORTEST_WAIT_MS: Final = 50
"""Between two checks of parked entities."""


class Worker(Generic[M]):
    """Empties one backlog queue until it is told to stop."""

    def __init__(self, source: BacklogSource[M], restorer: Restorer[M]) -> None:
        self._source = source
        self._restorer = restorer
        self._settings: SyphonSettings = restorer.settings
        self._deferrals = Deferrals()
        self._stopping = asyncio.Event()
        self._scanned_at: int | None = None
        self._pace = Pace(self._settings.batch_count)
        # Whether the secondary answers, by the same rules as for an entity.
        self._secondary = Gate(self._settings)
        # Messages of this round were given back to the queue.
        self._gave_back = False
        # Fragments of the queue in which no older message can be locked, by us or by a
        # syphon that ended.
        self._in_order: set[int] = set()
        # The last round found nothing to do.
        self.is_idle = False

    def stop(self) -> None:
        """End after the received messages."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until it is stopped or its queue is gone. In the mode `until_empty`, run
        until there is nothing left to do; only then it raises PrimaryAway and
        SecondaryError."""
        try:
            while not self._stopping.is_set():
                try:
                    await self._round()
                    if self._secondary.open():
                        self._restorer.troubles.end(self._source.path)
                except SecondaryError as error:
                    if self._settings.until_empty:
                        raise
                    if error.is_gone:
                        # A new queue of the same name needs a worker of its own: it has
                        # other numbers, and the primary's ledger knows the old ones.
                        _log.warning("backlog queue %s is gone", self._source.path)
                        return
                    await self._pause(error)
                if self._settings.until_empty and self.is_idle:
                    return
        finally:
            self._restorer.troubles.end(self._source.path)
            await self._source.close()

    def _now(self) -> int:
        return self._restorer.clock.monotonic()

    async def _pause(self, error: SecondaryError) -> None:
        """The secondary failed: leave it alone for a while."""
        now = self._now()
        refusal = RestoreRefusal(error.gate_kind, str(error))
        if self._secondary.close(refusal, now):
            level = logging.ERROR if error.is_refused else logging.WARNING
            _log.log(level, "backlog queue %s: %s", self._source.path, error)
        self._restorer.troubles.begin(self._source.path, str(error))
        self._in_order.clear()
        await self._source.close()
        wait_ms = self._secondary.retry_at - now
        await self._unless_stopped(asyncio.sleep(wait_ms / 1000))

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of the work; None if the worker was told to stop meanwhile."""
        task = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stopping.cancel()
            task.cancel()
            await asyncio.gather(stopping, task, return_exceptions=True)

    # --- a round --------------------------------------------------------------

    async def _round(self) -> None:
        self.is_idle = False
        if not await self._primary_is_there():
            return
        await self._scan_if_due()
        await self._probe_deferred()
        await self._return_page()
        if not self._restorer.watch.is_reachable:
            return
        batch = await self._receive()
        if not batch:
            self.is_idle = not self._returning()
        elif await self._is_next(batch):
            await self._work(batch)
        else:
            await self._wait_for_older(batch)

    async def _is_next(self, batch: Sequence[M]) -> bool:
        """Whether no older message is left behind; checked once after each event that
        may have left one locked, in each fragment."""
        if not self._settings.keeps_order:
            return True
        firsts: dict[int, int] = {}
        for message in batch:
            number = message.sequence_number
            index = number >> _FRAGMENT_BITS
            if index not in self._in_order:
                firsts[index] = min(number, firsts.get(index, number))
        for index, first in firsts.items():
            if await self._has_older(index, first):
                return False
            self._in_order.add(index)
        return True

    async def _has_older(self, index: int, number: int) -> bool:
        """Whether the fragment has an older message that is not deferred."""
        next_number: int | None = index << _FRAGMENT_BITS
        while next_number is not None and next_number < number:
            page = await self._source.peek_deferred(next_number)
            if page.first_active is not None:
                return page.first_active < number
            next_number = page.next_number
        return False

    async def _wait_for_older(self, batch: Sequence[M]) -> None:
        """Give the batch back, and wait until the locks of older messages end."""
        await self._source.abandon(batch)
        await self._source.close()
        pause = self._settings.first_probe_ms / 1000
        await self._unless_stopped(asyncio.sleep(pause))

    async def _primary_is_there(self) -> bool:
        watch = self._restorer.watch
        if watch.is_reachable:
            return True
        if self._settings.until_empty:
            raise PrimaryAway("The primary cannot be reached.")
        # Give back what was received ahead: the outage may take any time.
        await self._source.close()
        await self._unless_stopped(watch.until_reachable())
        return watch.is_reachable

    async def _receive(self) -> list[M]:
        is_returning = bool(self._returning())
        count = self._pace.count
        if is_returning:
            count = min(count, _SIDE_BATCH_COUNT)
        wait_ms = 0 if is_returning else self._wait_ms()
        self._restorer.tally.receives += 1
        receiving = self._source.receive(count, wait_ms / 1000)
        batch = await self._unless_stopped(receiving) or []
        self._restorer.tally.received += len(batch)
        # Also if it found nothing: every receive is billed (P13).
        self._restorer.report(
            PairEvent(
                kind=EventKind.RECEIVED, queue=self._source.path, count=len(batch)
            )
        )
        return batch

    def _wait_ms(self) -> int:
        """How long to wait for new messages: not longer than parked entities may."""
        if self._settings.until_empty:
            return self._settings.once_wait_ms
        if not self._secondary.is_open:
            # A short wait tells soon whether the queue can be received from again.
            return self._settings.once_wait_ms
        gates = self._restorer.gates
        retries = [gates.of(span.path).retry_at for span in self._deferrals.spans()]
        if not retries:
            return self._settings.poll_ms
        # Entities that another worker is trying now are due as well.
        until_retry_ms = max(min(retries) - self._now(), _SHORTEST_WAIT_MS)
        return min(until_retry_ms, self._settings.poll_ms)

    # --- new messages ---------------------------------------------------------

    async def _work(self, batch: Sequence[M]) -> None:
        began_at = self._now()
        triage = Triage(batch, self._settings, self._restorer.clock.now())
        for message, fault in triage.poison:
            await self._restorer.bury(self._source, [message], fault)
        await _all(
            self._work_group(path, messages) for path, messages in triage.groups.items()
        )
        if self._gave_back:
            # Later messages may have been received ahead, and must not overtake.
            self._gave_back = False
            await self._source.close()
        size_bytes = sum(message.size_bytes for message in batch)
        self._pace.worked(len(batch), size_bytes, self._now() - began_at)

    async def _work_group(self, path: str, messages: list[M]) -> None:
        gate = self._restorer.gates.of(path)
        waiting = messages
        if path not in self._deferrals:
            if gate.is_open:
                waiting = await self._restorer.restore(self._source, path, messages)
            elif gate.may_probe(self._now()):
                waiting = await self._try_first(gate, path, messages)
        if waiting:
            await self._put_off(gate, path, waiting)

    async def _try_first(self, gate: Gate, path: str, messages: list[M]) -> list[M]:
        """Try whether the entity takes messages again. Returns those that it does
        not."""
        gate.probe()
        try:
            first = await self._restorer.restore(self._source, path, messages[:1])
        finally:
            gate.leave(self._now())
        if first or not gate.is_open:
            return [*first, *messages[1:]]
        return await self._restorer.restore(self._source, path, messages[1:])

    async def _put_off(self, gate: Gate, path: str, messages: list[M]) -> None:
        source, restorer = self._source, self._restorer
        refusal = gate.refusal
        if refusal is not None and gate.is_given_up(self._now()):
            await restorer.bury(source, messages, fault_of(refusal), path)
            return
        if not restorer.watch.is_reachable:
            await source.abandon(messages)
            self._gave_back = True
            return
        for message in messages:
            self._deferrals.note(path, message.sequence_number)
        await source.defer(messages)
        restorer.tally.parked += len(messages)

    # --- deferred messages ----------------------------------------------------

    async def _scan_if_due(self) -> None:
        """Find messages that another syphon has deferred and left behind."""
        now = self._now()
        if self._scanned_at is not None and (
            now - self._scanned_at < self._settings.rescan_ms
        ):
            return
        next_number: int | None = 0
        untouched_count = 0
        while next_number is not None:
            page = await self._source.peek_deferred(next_number)
            for glimpse in page.glimpses:
                self._deferrals.note(glimpse.path, glimpse.sequence_number)
            untouched_count = 0 if page.glimpses else untouched_count + page.seen_count
            next_number = page.next_number
            if next_number is not None and untouched_count >= _UNTOUCHED_RUN:
                next_number = (next_number >> _FRAGMENT_BITS) + 1 << _FRAGMENT_BITS
                untouched_count = 0
        self._scanned_at = now

    def _returning(self) -> list[str]:
        """Entities whose deferred messages can go now: back, or to the dead letters."""
        gates, now = self._restorer.gates, self._now()
        return [
            span.path
            for span in self._deferrals.spans()
            if gates.of(span.path).is_open or gates.of(span.path).is_given_up(now)
        ]

    async def _return_page(self) -> None:
        paths = self._returning()
        if not paths:
            return
        first = min(s.first for s in self._deferrals.spans() if s.path in paths)
        page = await self._source.peek_deferred(first)
        wanted = self._deferrals.wanted(page, paths)
        left = set(wanted)

        async def return_all(path: str, glimpses: list[Glimpse]) -> None:
            numbers = [glimpse.sequence_number for glimpse in glimpses]
            if await self._return_some(path, numbers):
                left.discard(path)

        await _all(return_all(path, found) for path, found in wanted.items())
        for path in paths:
            if path not in left:
                self._deferrals.passed(path, page)

    async def _return_some(self, path: str, numbers: list[int]) -> bool:
        """Take deferred messages of one entity, and restore them or give them back.
        Returns whether all of them are gone."""
        restorer, source = self._restorer, self._source
        taken = await source.take_deferred(numbers)
        triage = Triage(taken, self._settings, restorer.clock.now(), spelled=path)
        for message, fault in triage.poison:
            await restorer.bury(source, [message], fault, path)
        waiting = triage.groups.get(path, [])
        gate = restorer.gates.of(path)
        if waiting and not gate.is_given_up(self._now()):
            waiting = await restorer.restore(source, path, waiting)
        refusal = gate.refusal
        if waiting and refusal is not None and gate.is_given_up(self._now()):
            await restorer.bury(source, waiting, fault_of(refusal), path)
        elif waiting:
            await source.abandon(waiting)
            return False
        return True

    async def _probe_deferred(self) -> None:
        """Try the first deferred message of each closed entity that is due. All at
        once: an entity that does not answer takes all of its time."""
        gates, now = self._restorer.gates, self._now()
        due = [
            span.path
            for span in self._deferrals.spans()
            if gates.of(span.path).may_probe(now)
            and not gates.of(span.path).is_given_up(now)
        ]
        for start in range(0, len(due), _PROBES_AT_A_TIME):
            portion = due[start : start + _PROBES_AT_A_TIME]
            await _all(self._probe(path) for path in portion)

    async def _probe(self, path: str) -> None:
        gate = self._restorer.gates.of(path)
        if not gate.may_probe(self._now()):
            return  # Another worker was faster.
        gate.probe()
        try:
            await self._probe_first(path)
        finally:
            gate.leave(self._now())

    async def _probe_first(self, path: str) -> None:
        """Find the entity's first deferred message."""
        while path in self._deferrals:
            span = next(s for s in self._deferrals.spans() if s.path == path)
            page = await self._source.peek_deferred(span.first)
            glimpses = self._deferrals.wanted(page, [path]).get(path)
            if glimpses:
                await self._return_some(path, [glimpses[0].sequence_number])
                return
            self._deferrals.passed(path, page)


async def _all(works: Any) -> None:
    """Run all at the same time. When all have ended, raise the first error."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
