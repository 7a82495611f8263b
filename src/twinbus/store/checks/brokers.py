"""Brokers in a catalog: what they announce is there until it is withdrawn."""

from dataclasses import replace

from twinbus.store.base import StoreError
from twinbus.store.catalog import BrokerRecord
from twinbus.store.checks.expectation import expect, refused
from twinbus.store.checks.places import CatalogPlace

_FIRST = BrokerRecord(
    broker_uuid=bytes(16),
    address="127.0.0.1:5701",
    beat=1,
    description={"stores": {"00ff": 3}, "name": "\u00fc", "x": [None, 1.5]},
)
_SECOND = replace(_FIRST, broker_uuid=bytes(range(16)), address="", description={})


async def check_brokers_are_announced(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    expect(await catalog.brokers(), [], "a new catalog has no brokers")
    await catalog.announce(_SECOND)
    await catalog.announce(_FIRST)
    expect(await catalog.brokers(), [_FIRST, _SECOND], "all brokers, by uuid")
    later = replace(_FIRST, beat=2**40, address="elsewhere:1", description={"a": 1})
    await catalog.announce(later)
    expect(await catalog.brokers(), [later, _SECOND], "the last announcement counts")
    await catalog.close()
    catalog = place.catalog()
    await catalog.open()
    expect(await catalog.brokers(), [later, _SECOND], "others see it, too")
    await catalog.close()


async def check_brokers_are_withdrawn(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    await catalog.announce(_FIRST)
    await catalog.announce(_SECOND)
    await catalog.withdraw(_FIRST.broker_uuid)
    await catalog.withdraw(bytes(15) + b"\1")
    expect(await catalog.brokers(), [_SECOND], "it is gone, and no other one")
    await catalog.announce(_FIRST)
    expect(await catalog.brokers(), [_FIRST, _SECOND], "it may come back")
    await catalog.close()


async def check_brokers_are_no_change_of_entities(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    version = (await catalog.snapshot()).version
    await catalog.announce(_FIRST)
    await catalog.withdraw(_FIRST.broker_uuid)
    expect((await catalog.snapshot()).version, version, "announcements have no version")
    await catalog.close()


async def check_cluster_key_stays(place: CatalogPlace) -> None:
    catalog = place.catalog()
    await catalog.open()
    key = await catalog.cluster_key()
    expect(len(key), 32, "bytes of the key of the cluster")
    await catalog.close()
    catalog = place.catalog()
    await catalog.open()
    expect(await catalog.cluster_key(), key, "the same for everybody, and for ever")
    await catalog.close()


async def check_closed_catalog_has_no_brokers(place: CatalogPlace) -> None:
    catalog = place.catalog()
    with refused(StoreError, "a closed catalog takes no announcement"):
        await catalog.announce(_FIRST)
    with refused(StoreError, "a closed catalog knows no brokers"):
        await catalog.brokers()
    with refused(StoreError, "a closed catalog withdraws nobody"):
        await catalog.withdraw(_FIRST.broker_uuid)


CHECKS = (
    check_brokers_are_announced,
    check_brokers_are_withdrawn,
    check_brokers_are_no_change_of_entities,
    check_cluster_key_stays,
    check_closed_catalog_has_no_brokers,
)
