"""Waits for diverted messages that another broker keeps for a store of this one.

While a store is served by nobody, messages for it are kept in one certain other store
(`transfer_log.py`). When the store is taken, that may be at another broker. It is asked
before the store is served: it tells for which fragments it keeps messages, and takes no
more. Until they have arrived, their fragments accept nothing else, so nothing comes
before them. If nobody serves that store, it is waited for a while, unless nobody has
done so since this broker was started: then all brokers are being started.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from twinbus.broker.fragment_address import address_from
from twinbus.broker.home import ALL_FRAGMENTS
from twinbus.errors import ServiceBusError

if TYPE_CHECKING:
    from twinbus.outbox.transfer_log import TransferLog
    from twinbus.owner.store_owner import StoreOwner

_log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.2
_UNKNOWN_MS: Final = 10_000
"""How long the store that may keep messages is waited for: a takeover is over then."""


class DetourWatch:
    """For one store."""

    def __init__(self, store: "StoreOwner", transfer_log: "TransferLog") -> None:
        self._store = store
        self._transfer_log = transfer_log
        self._task: asyncio.Task[None] | None = None
        # Nobody could say at the last look what is kept.
        self._is_unknown = False

    async def begin(self) -> None:
        """The store is about to be served here."""
        await self.stop()
        log = self._transfer_log.log_of(self._store)
        self._store.awaited.clear()
        if log is not None and not log.is_serving:
            await self._look(log)
            if self._is_unknown and self._transfer_log.was_served(log):
                self._store.awaited[ALL_FRAGMENTS] = log
            if self._is_unknown or self._store.awaited:
                self._begin_watching(log)
        self._transfer_log.renew_all()

    def go_on(self) -> None:
        """Time has passed. The store that keeps messages may have gone to another
        broker before all had arrived: this one does not see them leave any more."""
        store = self._store
        if not (store.awaited and store.is_serving and self._is_idle()):
            return
        log = self._transfer_log.log_of(store)
        if log is not None and not log.is_serving:
            self._begin_watching(log)

    def _is_idle(self) -> bool:
        return self._task is None or self._task.done()

    def _begin_watching(self, log: "StoreOwner") -> None:
        watching = self._watch(log, self._store.clock.monotonic())
        self._task = asyncio.create_task(watching, name="detour-watch")

    async def _look(self, log: "StoreOwner") -> None:
        """Ask who keeps the messages."""
        store, elsewhere = self._store, self._transfer_log.elsewhere
        try:
            found = await elsewhere.diverted(log.store_uuid, store.store_uuid)
        except ServiceBusError:
            self._is_unknown = True
            return
        self._is_unknown = False
        targets = [address_from(text) for text in found]
        store.awaited.clear()
        store.awaited.update(
            ((target.generation, target.index), log) for target in targets
        )

    async def _watch(self, log: "StoreOwner", began_at: int) -> None:
        store, clock, epoch = self._store, self._store.clock, self._store.epoch
        limit_ms = self._transfer_log.settings.limit_ms
        while store.awaited or self._is_unknown:
            await asyncio.sleep(_PAUSE_SECONDS)
            if store.epoch != epoch:
                return
            if log.is_serving:
                # It has come here, and its lane says when it is done.
                store.awaited.clear()
                break
            await self._look(log)
            waited_ms = clock.monotonic() - began_at
            is_known = bool(store.awaited) and ALL_FRAGMENTS not in store.awaited
            if waited_ms > (limit_ms if is_known else min(_UNKNOWN_MS, limit_ms)):
                self._give_up()
                break
        self._transfer_log.renew_all()

    def _give_up(self) -> None:
        self._is_unknown = False
        if self._store.awaited:
            _log.warning(
                "what was kept for the store %s while it was away has not arrived: "
                "what is sent now may come before it",
                self._store.store.location,
            )
            self._store.awaited.clear()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
