"""Entries that other brokers bring to the stores of this one.

The owner of a source appends its entries here, one portion after the other. If the
source has a new owner, the one before may still have sent a portion. It is refused: the
new owner may have decided differently about what was refused then.
"""

from twinbus.broker.changes import OutboxEntry
from twinbus.errors import ServerBusy
from twinbus.outbox.outbox_arrival import OutboxArrival
from twinbus.outbox.remote_stores import Receipt
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner


class ForeignEntries:
    """Takes them, in the order in which they come."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        # The last epoch of each source that was seen.
        self._epochs: dict[bytes, int] = {}
        # Numbers in the operation log, by target and source.
        self._actors: dict[tuple[StoreOwner, bytes], int] = {}

    async def append(
        self,
        store_uuid: bytes,
        source_uuid: bytes,
        epoch: int,
        entries: list[OutboxEntry],
    ) -> Receipt:
        """Raises ServiceBusError."""
        target = self._owners.find(store_uuid)
        if target is None or not target.is_serving:
            raise ServerBusy("The message store is served by another broker now.")
        if epoch < self._epochs.get(source_uuid, 0):
            raise ServerBusy("The store that the messages leave has a new owner.")
        self._epochs[source_uuid] = epoch
        arrival = OutboxArrival(
            source_uuid, target, entries, self._actor(target, source_uuid)
        )
        target.admit(arrival)
        await arrival.outcome.done()
        return arrival.receipt()

    def _actor(self, target: StoreOwner, source_uuid: bytes) -> int:
        known = self._actors.get((target, source_uuid))
        if known is None:
            known = target.introduce(f"outbox of store {source_uuid.hex()}")
            self._actors[target, source_uuid] = known
        return known
