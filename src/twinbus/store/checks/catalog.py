"""Catalogs: what was put is there, compared without case, until it is removed."""

from dataclasses import replace

from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.catalog import EntityRecord
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
    await catalog.remove("shop", ["no such entity"])
    await catalog.remove("shop", ["SALES/orders", "another"])
    await catalog.close()
    catalog = place.catalog()
    expect(await catalog.open(), [kept], "removed, whatever the case")
    await catalog.close()


async def check_closed_catalog_does_nothing(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    with refused(StoreInUse, "an open catalog cannot be opened again"):
        await catalog.open()
    await catalog.close()
    await catalog.close()
    with refused(StoreError, "a closed catalog takes nothing"):
        await catalog.put(_ORDERS)


CHECKS = (
    check_entities_are_kept,
    check_entities_are_replaced,
    check_entities_are_removed,
    check_closed_catalog_does_nothing,
)
