"""Which broker gets a row of an append."""

from collections.abc import AsyncIterator

import pytest
from unit.entities.world import World
from unit.operations.spread import encoded, key_in, owner_at, spread_world
from unit.operations.store_brokers import StoreBrokers

from simulator.caller import TrustedCaller
from twinbus.broker.home import Home
from twinbus.operations.bulk.local_share import LocalShare
from twinbus.operations.bulk.row_places import RowPlaces


class MovingBrokers(StoreBrokers):
    """Brokers that come and go."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        # Served by another broker, though this world could serve it.
        self.elsewhere: set[Home] = set()

    def address_of(self, home: Home) -> str | None:
        return home.store_uuid.hex() if home in self.elsewhere else None


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = spread_world(3)
    await made.start()
    await made.namespace.create_queue("orders", {"enable_partitioning": True})
    await made.namespace.create_queue("plain", {})
    yield made
    await made.stop()


@pytest.fixture
def brokers(world: World) -> MovingBrokers:
    return MovingBrokers(world)


@pytest.fixture
def here(world: World) -> LocalShare:
    return LocalShare(world.namespace)


@pytest.fixture
def places(world: World, brokers: MovingBrokers, here: LocalShare) -> RowPlaces:
    return RowPlaces(world.namespace, TrustedCaller("bulk"), here, brokers)


def test_rows_of_a_key_go_to_the_broker_of_its_fragment(
    world: World, brokers: MovingBrokers, here: LocalShare, places: RowPlaces
) -> None:
    away = owner_at(world, 1)
    brokers.elsewhere = {away}
    found = [
        places.share_of("orders", encoded(key=key_in(index))) for index in range(4)
    ]
    other = brokers.shares[away.store_uuid.hex()]
    assert found == [here, other, here, here]


def test_row_without_a_key_or_sense_stays_here(
    world: World, brokers: MovingBrokers, here: LocalShare, places: RowPlaces
) -> None:
    brokers.elsewhere = {owner_at(world, 1), owner_at(world, 2)}
    assert places.share_of("orders", encoded()) is here
    assert places.share_of("orders", b"not a message") is here
    assert places.share_of("nowhere", encoded()) is here


def test_row_without_a_key_goes_to_a_broker_that_has_a_fragment(
    world: World, brokers: MovingBrokers, here: LocalShare, places: RowPlaces
) -> None:
    one, two = owner_at(world, 1), owner_at(world, 2)
    brokers.elsewhere = {one, two}
    for owner in world.owners:
        owner.is_serving = False
    try:
        assert places.share_of("orders", encoded()) in brokers.shares.values()
        # Both have gone since the entity was looked up.
        brokers.elsewhere = set()
        assert places.share_of("orders", encoded()) is here
    finally:
        for owner in world.owners:
            owner.is_serving = True
