"""Catalogs: what was put is there, compared without case, until it is removed."""

from dataclasses import replace

from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.catalog import (
    INTENT,
    TOMBSTONE,
    EntityRecord,
    Unfinished,
    unfinished,
)
from twinbus.store.checks.expectation import expect, refused
from twinbus.store.checks.places import CatalogPlace

_ORDERS = EntityRecord(
    namespace="Shop",
    path="Sales/Orders",
    kind="queue",
    generation=bytes(range(16)),
    description={"lock_duration_ms": 30_000, "rules": [{"key": "\u00fc"}], "x": None},
    created_at=1_700_000_000_000,
    updated_at=1_700_000_000_001,
    placement=(bytes(16), bytes(range(16))),
)


async def check_entities_are_kept(place: CatalogPlace) -> None:
    catalog = place.catalog()
    expect(await catalog.open(), [], "a new catalog is empty")
    other = replace(_ORDERS, path="another", placement=())
    await catalog.put(_ORDERS)
    await catalog.put(other)
    await catalog.close()
    catalog = place.catalog()
    expect(await catalog.open(), [other, _ORDERS], "entities, in order of their paths")
    await catalog.close()


async def check_entities_are_replaced(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    await catalog.put(_ORDERS)
    updated = replace(
        _ORDERS, namespace="SHOP", path="sales/ORDERS", description={"a": 1}
    )
    await catalog.put(updated)
    elsewhere = replace(_ORDERS, namespace="workshop")
    await catalog.put(elsewhere)
    await catalog.close()
    catalog = place.catalog()
    expect(await catalog.open(), [updated, elsewhere], "one entity per path")
    await catalog.close()


async def check_entities_are_removed(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    other = replace(_ORDERS, path="another")
    kept = replace(_ORDERS, path="kept")
    for entity in (_ORDERS, other, kept):
        await catalog.put(entity)
    await catalog.remove([_tombstone("no such entity", 1)])
    tombstones = [_tombstone("SALES/orders", 2), _tombstone("another", 3)]
    await catalog.remove(tombstones)
    await catalog.close()
    catalog = place.catalog()
    expect(await catalog.open(), [kept], "removed, whatever the case")
    expect(
        await catalog.unfinished(),
        [_tombstone("no such entity", 1), *tombstones],
        "what is to be dropped is noted with the removal",
    )
    await catalog.close()


async def check_namespace_is_removed_with_its_entities(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    own = replace(_ORDERS, path="", kind="namespace", generation=bytes([7]) * 16)
    other = replace(own, namespace="lab", generation=bytes([8]) * 16)
    twin = replace(_ORDERS, namespace="lab", generation=bytes([9]) * 16)
    await catalog.put(own, _ORDERS, other, twin)
    version = (await catalog.snapshot()).version
    removed = [
        replace(_tombstone("", 7), namespace="Shop"),
        replace(_tombstone(_ORDERS.path, 1), generation=_ORDERS.generation),
    ]
    await catalog.remove(removed, known=version)
    changes = await catalog.changes_since(version)
    assert changes is not None
    expect(
        {one.generation for one in changes.removed},
        {own.generation, _ORDERS.generation},
        "brokers learn of both",
    )
    await catalog.close()
    catalog = place.catalog()
    found = {record.generation for record in await catalog.open()}
    expect(
        found, {other.generation, twin.generation}, "the same paths elsewhere are kept"
    )
    await catalog.close()


async def check_tombstones_are_kept_until_they_are_struck_out(
    place: CatalogPlace,
) -> None:
    catalog = place.catalog()
    await catalog.open()
    here = _tombstone("a", 1)
    elsewhere = replace(here, store_uuid=bytes(range(16)))
    await catalog.remove([here, elsewhere])
    await catalog.finish([here, _tombstone("never noted", 9)])
    await catalog.close()
    catalog = place.catalog()
    await catalog.open()
    expect(await catalog.unfinished(), [elsewhere], "each store has its own")
    await catalog.close()


async def check_intents_are_kept_until_their_entity_is_put(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    intents = unfinished(_ORDERS, INTENT, 7)
    expect(len(intents), 2, "an intent for each store")
    other = replace(intents[0], generation=bytes(16), path="other")
    await catalog.intend([*intents, other])
    await catalog.close()
    catalog = place.catalog()
    expect(await catalog.open(), [], "an intent is no entity")
    expect(await catalog.unfinished(), [other, *intents], "intents, by generation")
    await catalog.put(_ORDERS)
    expect(await catalog.unfinished(), [other], "fulfilled with the entity")
    await catalog.close()


async def check_entities_are_put_together(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    other = replace(_ORDERS, path="another", generation=bytes(16))
    await catalog.put(_ORDERS, other)
    await catalog.close()
    catalog = place.catalog()
    expect(await catalog.open(), [other, _ORDERS], "all of them")
    await catalog.close()


async def check_catalog_exists_once_it_was_opened(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    await catalog.close()
    expect(place.catalog().exists(), True, "there is something to open")
    expect(bool(catalog.location), True, "people are told where it is")


async def check_closed_catalog_does_nothing(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    with refused(StoreInUse, "an open catalog cannot be opened again"):
        await catalog.open()
    await catalog.close()
    await catalog.close()
    with refused(StoreError, "a closed catalog takes nothing"):
        await catalog.put(_ORDERS)


def _tombstone(path: str, number: int) -> Unfinished:
    return Unfinished(
        kind=TOMBSTONE,
        namespace="shop",
        path=path,
        generation=bytes([number]) * 16,
        store_uuid=bytes(16),
        noted_at=1_700_000_000_000,
    )


CHECKS = (
    check_entities_are_kept,
    check_entities_are_replaced,
    check_entities_are_removed,
    check_entities_are_put_together,
    check_namespace_is_removed_with_its_entities,
    check_intents_are_kept_until_their_entity_is_put,
    check_tombstones_are_kept_until_they_are_struck_out,
    check_catalog_exists_once_it_was_opened,
    check_closed_catalog_does_nothing,
)
