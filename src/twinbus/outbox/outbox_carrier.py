"""Empties the outbox of one store: a lane for each store that something is for."""

from collections.abc import Callable

from twinbus.outbox.detour_watch import DetourWatch
from twinbus.outbox.lane import Lane
from twinbus.outbox.remote_stores import RemoteStores
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner


class OutboxCarrier:
    """Brings entries of one source to other stores, of this broker and of others."""

    def __init__(
        self,
        source: StoreOwner,
        owners: Owners,
        elsewhere: Callable[[], RemoteStores],
        renew_detours: Callable[[StoreOwner], None],
        end_detours: Callable[[StoreOwner], None],
        watch: DetourWatch,
    ) -> None:
        self._source = source
        self._owners = owners
        self._elsewhere = elsewhere
        # Called if messages that were diverted may not have arrived after all.
        self._renew_detours = renew_detours
        # Called when messages have arrived, and were removed here.
        self._end_detours = end_detours
        # Waits for what others keep for this store.
        self.watch = watch
        self._lanes: dict[bytes, Lane] = {}

    def wake(self) -> None:
        self.tick(self._source.clock.now())

    def restored(self) -> None:
        for lane in self._lanes.values():
            lane.restart()
        self._renew()

    def tick(self, now: int) -> None:
        for store_uuid in self._source.outbox.lanes():
            lane = self._lanes.get(store_uuid)
            if lane is None:
                lane = self._lanes[store_uuid] = Lane(
                    *(self._source, store_uuid, self._owners.find),
                    *(self._elsewhere, self._renew, self._end),
                )
            lane.begin(now)

    def _renew(self) -> None:
        self._renew_detours(self._source)

    def _end(self) -> None:
        self._end_detours(self._source)

    async def stop(self) -> None:
        await self.watch.stop()
        for lane in list(self._lanes.values()):
            await lane.stop()
