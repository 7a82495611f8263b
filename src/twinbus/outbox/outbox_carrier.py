"""Empties the outbox of one store: a lane for each store that something is for."""

from collections.abc import Callable

from twinbus.outbox.lane import Lane
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner


class OutboxCarrier:
    """Brings entries of one source to the other stores of this process."""

    def __init__(
        self,
        source: StoreOwner,
        owners: Owners,
        renew_detours: Callable[[StoreOwner], None],
    ) -> None:
        self._source = source
        self._owners = owners
        # Called if messages that were diverted may not have arrived after all.
        self._renew_detours = renew_detours
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
                    self._source, store_uuid, self._owners.find, self._renew
                )
            lane.begin(now)

    def _renew(self) -> None:
        self._renew_detours(self._source)

    async def stop(self) -> None:
        for lane in list(self._lanes.values()):
            await lane.stop()
