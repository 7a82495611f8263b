"""Where a store is served: by which broker of the cluster, at which address."""

from collections.abc import Iterable, Mapping
from typing import final

from twinbus.cluster.announcement import OPENING, Announcement


def owners_of_stores(brokers: Iterable[Announcement]) -> dict[bytes, Announcement]:
    """The owner of each store. If two say that they own it, the later epoch is right:
    the other one does not know yet that it was replaced."""
    owners: dict[bytes, Announcement] = {}
    for broker in brokers:
        for store, epoch in broker.stores.items():
            known = owners.get(store)
            if known is None or epoch > known.stores[store]:
                owners[store] = broker
    return owners


@final
class BrokerDirectory:
    """What a broker knows of the others."""

    def __init__(self, me: bytes) -> None:
        self._me: bytes = me
        self._alive: tuple[Announcement, ...] = ()
        self._owners: Mapping[bytes, Announcement] = {}

    def learn(self, alive: Iterable[Announcement]) -> None:
        """All brokers that are alive, this one included."""
        self._alive = tuple(alive)
        self._owners = owners_of_stores(self._alive)

    def address_of(self, store_uuid: bytes) -> str | None:
        """Where the store can be reached; None if no other broker serves it now."""
        owner = self._owners.get(store_uuid)
        if owner is None or owner.broker_uuid == self._me:
            return None
        if owner.stores[store_uuid] == OPENING or not owner.address:
            return None
        return owner.address

    def serves_all(self, store_uuids: Iterable[bytes]) -> bool:
        """All these stores have owners that serve them, but for those that no broker
        can reach: the machine with their files may be down for long."""
        owners = self._owners
        reach = frozenset[bytes]().union(*(one.reach for one in self._alive))
        return all(
            owners[uuid].stores[uuid] != OPENING
            if uuid in owners
            else uuid not in reach
            for uuid in store_uuids
        )

    def brokers(self) -> tuple[Announcement, ...]:
        """Those that are alive."""
        return self._alive

    def others(self) -> list[Announcement]:
        """Those that are alive, without this one."""
        return [one for one in self._alive if one.broker_uuid != self._me]

    def owner_of(self, store_uuid: bytes) -> Announcement | None:
        """The broker that owns the store or is about to own it."""
        return self._owners.get(store_uuid)
