"""Idle entities whose fragments are at several brokers."""

from collections.abc import Sequence

from twinbus.broker.changes import FragmentRecord
from twinbus.broker.fragment import MAIN
from twinbus.entities.entity import Entity
from twinbus.entities.other_brokers import NoOthers

from .world import World

IDLE_MS = 300_000


class OneOther(NoOthers):
    """A broker that serves the second store, and tells what it is set to."""

    def __init__(self) -> None:
        self.records: list[FragmentRecord] = []
        self.used_at = 0

    def serves(self, store_uuid: bytes) -> bool:
        return True

    async def tell(
        self, entities: Sequence[Entity], *, with_links: bool = False
    ) -> bool:
        for entity in entities:
            entity.learn_elsewhere(
                self.records, used_at=self.used_at if with_links else 0
            )
        return True


async def shared_queue() -> tuple[World, OneOther]:
    """A queue in two stores, of which another broker has one; idle by all that is
    known here."""
    world, other = World(store_count=2), OneOther()
    await world.start()
    properties = {"enable_partitioning": True, "auto_delete_on_idle_ms": IDLE_MS}
    queue = await world.namespace.create_queue("orders", properties)
    other.records = [
        record
        for index in range(len(queue.homes()))
        if queue.home(index) is not queue.home(0)
        and (record := queue.counters(MAIN, index)) is not None
    ]
    for home in queue.homes():
        home.is_serving = home is queue.home(0)
    world.namespace.stores.others = other
    world.clock.advance(IDLE_MS + 1)
    return world, other


async def is_deleted(world: World) -> bool:
    # It looks every ten seconds.
    world.clock.advance(10_000)
    world.namespace.idle.tick(world.clock.now())
    await world.namespace.idle.finished()
    return world.namespace.find("orders") is None


async def test_queue_that_is_used_nowhere_is_deleted() -> None:
    world, _ = await shared_queue()
    for home in world.namespace.queue("orders").homes():
        home.is_serving = True
    assert await is_deleted(world)
    await world.stop()


async def test_queue_is_kept_while_a_client_has_it_open_at_another_broker() -> None:
    world, other = await shared_queue()
    other.used_at = world.clock.now()
    assert not await is_deleted(world)
    await world.stop()


async def test_queue_is_kept_while_nobody_tells_of_one_of_its_fragments() -> None:
    """The store has just moved, and the broker that was asked has nothing of it."""
    world, other = await shared_queue()
    other.records.clear()
    assert not await is_deleted(world)
    for home in world.namespace.queue("orders").homes():
        home.is_serving = True
    assert await is_deleted(world), "nothing else has kept it"
    await world.stop()
