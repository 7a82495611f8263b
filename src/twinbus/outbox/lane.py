"""A lane: brings entries of one outbox to one other store, in their order.

    read a portion -> append at the target, commit -> remove here, commit -> again

The target's commit comes first. After a crash in between the entries are brought again,
and the target drops them. A target that is away does not hold up other lanes. If
another broker serves the target, the entries are brought to that one.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from twinbus.broker.changes import OutboxEntry
from twinbus.broker.message import Annex
from twinbus.broker.outbox import FORWARDED, source_of
from twinbus.encoding.envelope import decode_envelope
from twinbus.errors import ServiceBusError
from twinbus.limits import OUTBOX_PORTION, OUTBOX_PORTION_BYTES
from twinbus.outbox.outbox_arrival import OutboxArrival
from twinbus.outbox.remote_stores import Receipt, RefusedEntry, RemoteStores
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import StoreError

_log = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 100
_LONGEST_PAUSE_MS: Final = 10_000
"""How long a target is left alone after an error."""


class Lane:
    """From one store to another."""

    def __init__(
        self,
        source: StoreOwner,
        store_uuid: bytes,
        find_owner: Callable[[bytes], StoreOwner | None],
        elsewhere: Callable[[], RemoteStores],
        renew_detours: Callable[[], None],
        end_detours: Callable[[], None],
    ) -> None:
        self._source = source
        self._store_uuid = store_uuid
        self._find_owner = find_owner
        self._elsewhere = elsewhere
        # Finds out which fragments wait for messages from this outbox.
        self._renew_detours = renew_detours
        # Ends detours that nothing in this outbox is left of.
        self._end_detours = end_detours
        # Number of this lane in the target's operation log; 0: not introduced yet.
        self._actor = 0
        # Entries up to this id were brought and removed.
        self._after = 0
        self._pause_ms = _FIRST_PAUSE_MS
        self._retry_at = 0
        # Something was committed since the last read.
        self._is_woken = False
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None

    def begin(self, now: int) -> None:
        """Bring what is there, unless it has to wait."""
        self._is_woken = True
        # A clock that was set back must not delay this for long.
        must_wait = 0 < self._retry_at - now <= _LONGEST_PAUSE_MS
        if self._task is None and not must_wait and self._can_go():
            self._task = asyncio.create_task(self._run(), name="outbox-lane")

    def restart(self) -> None:
        """Read from the beginning again: a removal may not have happened."""
        self._after = 0

    async def stop(self) -> None:
        """Finish the portion under way."""
        self._is_stopping = True
        if self._task is not None:
            await self._task

    def _can_go(self) -> bool:
        return (
            not self._is_stopping
            and self._source.is_serving
            and self._source.outbox.count_for(self._store_uuid) > 0
            and (
                self._target_here() is not None
                or self._elsewhere().serves(self._store_uuid)
            )
        )

    def _target_here(self) -> StoreOwner | None:
        target = self._find_owner(self._store_uuid)
        return target if target is not None and target.is_serving else None

    async def _run(self) -> None:
        try:
            while self._is_woken and self._can_go():
                self._is_woken = False
                await self._carry_all()
            self._pause_ms = _FIRST_PAUSE_MS
        except (ServiceBusError, StoreError) as error:
            self._wait(error)
        except Exception as bug:
            _log.critical("an outbox lane waits because of a bug", exc_info=True)
            self._wait(bug)
        finally:
            self._task = None

    def _wait(self, error: Exception) -> None:
        self._after = 0
        self._retry_at = self._source.clock.now() + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, _LONGEST_PAUSE_MS)
        _log.warning("an outbox lane waits: %s", error)

    async def _carry_all(self) -> None:
        while self._can_go():
            epoch, entries = self._source.epoch, await self._read()
            if not entries:
                return
            receipt = await self._carry(entries)
            # If another broker had the store meanwhile, that one goes on.
            if receipt is not None and epoch == self._source.epoch:
                await self._clear(receipt)
                # The target may have come here while another broker took these.
                self._end_detours()

    async def _read(self) -> list[OutboxEntry]:
        source = self._source
        async with source.reading:
            return await source.store.outbox(
                limit=OUTBOX_PORTION,
                lane=self._store_uuid.hex(),
                after=self._after,
                limit_bytes=OUTBOX_PORTION_BYTES,
            )

    async def _carry(self, entries: list[OutboxEntry]) -> Receipt | None:
        """None if nobody serves the target. Raises ServiceBusError."""
        target, source = self._target_here(), self._source
        if target is not None:
            return await self._append(target, entries)
        if not self._elsewhere().serves(self._store_uuid):
            return None
        return await self._elsewhere().append(
            self._store_uuid, source.store_uuid, source.epoch, entries
        )

    async def _append(self, target: StoreOwner, entries: list[OutboxEntry]) -> Receipt:
        """To a store of this broker."""
        uuid = self._source.store_uuid
        if self._actor == 0:
            self._actor = target.introduce(f"outbox of store {uuid.hex()}")
        arrival = OutboxArrival(
            *(uuid, target, entries, self._actor, self._source, self._renew_detours)
        )
        target.admit(arrival)
        await arrival.outcome.done()
        return arrival.receipt()

    async def _clear(self, receipt: Receipt) -> None:
        """Remove what has arrived, and keep what was refused."""
        source = self._source
        if not source.is_serving:
            return
        for entry in receipt.taken:
            source.outbox.remove(entry, source.changes)
        for refused in receipt.refused:
            source.outbox.remove(refused.entry, source.changes)
            self._keep(refused)
        for target in receipt.full:
            source.outbox.note_full(target, source.clock.now())
        done = [*receipt.taken, *(refused.entry for refused in receipt.refused)]
        await source.durable()
        self._after = done[-1].entry_id

    def _keep(self, refused: RefusedEntry) -> None:
        """The source of a refused message keeps it, as a dead letter."""
        source, origin = self._source, refused.entry.origin
        left, message = source_of(origin), decode_envelope(refused.entry.raw)
        fragment = source.table.find(left.generation, left.index, left.sub_queue)
        if fragment is None:
            _log.warning("a message was refused, and its source is deleted: dropped")
            return
        now, changes = source.clock.now(), source.changes
        if origin[:1] != FORWARDED:
            fragment.fail_transfer(message, refused.reason, refused.text, now, changes)
            return
        message.annex = _without_hop(message.annex)
        if fragment.settings.is_dead_letter_queue:
            fragment.adopt(message, now, changes)
        else:
            fragment.reject(message, refused.reason, refused.text, now, changes)


def _without_hop(annex: Annex | None) -> Annex | None:
    """The annex of a message that was not forwarded after all."""
    if annex is None:
        return None
    return replace(annex, forwarded_count=annex.forwarded_count - 1)
