"""Where a new entity is placed, by a broker that has few stores or none; and that what
was made there is looked at before the catalog gets the entity."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twinbus.broker.descriptions.queue import queue_description
from twinbus.entities.directory import Directory
from twinbus.entities.entity_stores import EntityStores
from twinbus.entities.other_brokers import NoOthers
from twinbus.errors import FragmentUnavailable, ServerBusy
from twinbus.owner.owners import Owners
from twinbus.store.catalog import EntityRecord, stored_entity

from .world import World

MINE, THEIRS, AWAY = b"a" * 16, b"b" * 16, b"c" * 16


class Stores:
    """As `Owners`, of stores that are served here or not."""

    def __init__(self, here: Sequence[bytes], others: Sequence[bytes]) -> None:
        self._all = [
            SimpleNamespace(store_uuid=uuid, is_serving=uuid in here)
            for uuid in (*here, *others)
        ]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all)

    def serving(self) -> list[Any]:
        return [one for one in self._all if one.is_serving]

    def for_new_entity(self) -> Any:
        return self.serving()[0]

    def for_new_fragments(self, count: int) -> tuple[bytes, ...]:
        if not self.serving():
            raise ServerBusy("No message store is there.")
        return tuple(one.store_uuid for one in self.serving())


class AnotherBroker(NoOthers):
    def serves(self, store_uuid: bytes) -> bool:
        return store_uuid == THEIRS


def placement(
    here: Sequence[bytes], others: Sequence[bytes], **properties: object
) -> tuple[bytes, ...]:
    stores = EntityStores(cast(Owners, Stores(here, others)))
    stores.others = AnotherBroker()
    description = queue_description(properties, "q")
    return stores.placement(Directory(), 4, "q", description)


def test_conventional_entity_is_placed_at_the_broker_that_makes_it() -> None:
    assert placement([MINE], [THEIRS]) == (MINE,)


def test_broker_without_a_store_places_it_at_another_one() -> None:
    assert placement([], [THEIRS, AWAY]) == (THEIRS,)


def test_without_any_store_there_is_no_place() -> None:
    with pytest.raises(ServerBusy, match="No message store"):
        placement([], [AWAY])


def test_partitioned_entity_is_spread_over_the_stores_of_all_brokers() -> None:
    found = placement([MINE], [THEIRS], enable_partitioning=True)
    assert sorted(found) == [MINE, MINE, THEIRS, THEIRS]


def test_partitioned_entity_waits_for_a_store_that_is_away() -> None:
    with pytest.raises(FragmentUnavailable):
        placement([MINE], [THEIRS, AWAY], enable_partitioning=True)


async def made(world: World) -> EntityRecord:
    return (await world.namespace.create_queue("orders", {})).record


async def test_what_was_made_here_is_there(world: World) -> None:
    record = await made(world)
    await world.namespace.stores.check_made(record)
    await world.namespace.check_fragments(stored_entity(record))


async def test_what_a_new_owner_has_dropped_is_missed(world: World) -> None:
    record = await made(world)
    (owner,) = world.namespace.stores.owners_of(record)
    owner.table.drop(record.generation, owner.changes)
    with pytest.raises(FragmentUnavailable, match="'orders' was not created"):
        await world.namespace.stores.check_made(record)
    with pytest.raises(FragmentUnavailable, match="has dropped what was made"):
        await world.namespace.check_fragments(stored_entity(record))


class TheirStore(NoOthers):
    """Another broker serves it now."""

    def __init__(self, refusal: ServerBusy | None) -> None:
        self._refusal = refusal
        self.asked: list[bytes] = []

    def serves(self, store_uuid: bytes) -> bool:
        return True

    async def check_made(
        self, record: EntityRecord, store_uuids: Sequence[bytes]
    ) -> None:
        self.asked += store_uuids
        if self._refusal is not None:
            raise self._refusal


async def test_broker_that_serves_the_store_is_asked(world: World) -> None:
    record = await made(world)
    stores = world.namespace.stores
    (owner,) = stores.owners_of(record)
    owner.is_serving = False
    try:
        with pytest.raises(FragmentUnavailable):
            await stores.check_made(record)
        theirs = stores.others = TheirStore(None)
        await stores.check_made(record)
        assert theirs.asked == [owner.store_uuid]
        stores.others = TheirStore(FragmentUnavailable.dropped(record.path))
        with pytest.raises(FragmentUnavailable, match="has dropped what was made"):
            await stores.check_made(record)
    finally:
        owner.is_serving, stores.others = True, NoOthers()
