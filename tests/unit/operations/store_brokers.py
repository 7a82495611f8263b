"""The stores of one world as those of several brokers: bulk requests for a store go
through a share of its own, as they go to another broker."""

from unit.entities.world import World

from twinbus.broker.home import Home
from twinbus.operations.bulk.bulk_entities import BulkEntities
from twinbus.operations.bulk.local_share import LocalShare
from twinbus.operations.bulk.shares import BrokerShare


class StoreBrokers:
    """The first store is served here; each other one elsewhere."""

    def __init__(self, world: World) -> None:
        here, *others = world.owners
        self.shares: dict[str, BrokerShare] = {
            owner.store_uuid.hex(): LocalShare(world.namespace) for owner in others
        }
        self._here = here

    def address_of(self, home: Home) -> str | None:
        is_elsewhere = home is not self._here and home.is_serving
        return home.store_uuid.hex() if is_elsewhere else None

    def at(self, address: str) -> BrokerShare:
        return self.shares[address]


def bulk_of_brokers(world: World) -> tuple[BulkEntities, StoreBrokers]:
    bulk, brokers = BulkEntities(world.namespace), StoreBrokers(world)
    bulk.others = brokers
    return bulk, brokers
