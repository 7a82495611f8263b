"""Nothing is brought to a newer format under those who could not read it."""

import asyncio
import json

import pytest

from twinbus.store import postgres_brokers
from twinbus.store.base import FormatTooNew, StoreInUse, StoreMissing
from twinbus.store.catalog import BrokerRecord
from twinbus.store.checks.owner import NOW, owner_of
from twinbus.store.formats import FORMATS, POSTGRES_CATALOG
from twinbus.store.opening import open_store, refuse_missing
from twinbus.store.postgres_catalog import FORMAT, PostgresCatalog
from twinbus.store.process_identity import this_process

from .places import PostgresPlace

MADE = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"


async def test_store_is_not_migrated_under_its_owner(
    postgres_place: PostgresPlace,
) -> None:
    owner = await owner_of(postgres_place)
    postgres_place.run("UPDATE twinbus_meta SET format_version = 0")
    with pytest.raises(StoreInUse):
        await open_store(postgres_place.store(), "newer", NOW)
    assert postgres_place.run("SELECT format_version FROM twinbus_meta") == [(0,)]
    await owner.store.close()


async def test_store_waits_until_all_brokers_can_read_it(
    postgres_place: PostgresPlace,
) -> None:
    await (await owner_of(postgres_place)).store.close()
    postgres_place.run("UPDATE twinbus_meta SET format_version = 0")
    store = postgres_place.store()
    store.lease.may_migrate = lambda: False
    with pytest.raises(StoreInUse, match="waits until all brokers are updated"):
        await open_store(store, "newer", NOW)
    assert postgres_place.run("SELECT format_version FROM twinbus_meta") == [(0,)]


async def test_store_that_is_gone_is_not_made_again(
    postgres_place: PostgresPlace,
) -> None:
    store = postgres_place.store()
    refuse_missing(store)
    with pytest.raises(StoreMissing, match="the catalog knows a store there"):
        await open_store(store, "test", NOW)
    assert postgres_place.run(MADE, postgres_place.schema) == [(0,)]


# --- the catalog ----------------------------------------------------------------------


def _older(place: PostgresPlace) -> None:
    """As the format before wrote it."""
    schema = f"{place.schema}_catalog"
    for column in ("root_key", "moved_to", "moved_from"):
        place.run(f"ALTER TABLE {schema}.twinbus_meta DROP COLUMN {column}")
    place.run(f"UPDATE {schema}.twinbus_meta SET format_version = 2")


def _announced(place: PostgresPlace, *, host: str, formats: dict[str, int]) -> str:
    """A broker that uses the catalog; returns the statement of its next beat."""
    process = {**this_process().to_json(), "host": host}
    said = BrokerRecord(
        broker_uuid=b"b" * 16,
        address="10.0.0.1:1",
        beat=1,
        description={"name": "old", "process": process, FORMATS: formats},
    )
    table = f"{place.schema}_catalog.broker"
    place.run(
        f"INSERT INTO {table} VALUES (%s, %s, %s, %s)",
        *(said.broker_uuid, said.address, said.beat, json.dumps(said.description)),
    )
    return f"UPDATE {table} SET beat = beat + 1"


async def _made(place: PostgresPlace) -> PostgresCatalog:
    catalog = place.catalog()
    await catalog.open()
    await catalog.close()
    _older(place)
    return place.catalog()


def _format_of(place: PostgresPlace) -> int:
    table = f"{place.schema}_catalog.twinbus_meta"
    (row,) = place.run(f"SELECT format_version FROM {table}")
    version: int = row[0]
    return version


@pytest.fixture(autouse=True)
def short_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_brokers, "_LOOK_SECONDS", 0.2)


async def test_catalog_is_not_migrated_under_a_broker_of_another_machine(
    postgres_place: PostgresPlace,
) -> None:
    catalog = await _made(postgres_place)
    beat = _announced(postgres_place, host="elsewhere", formats={POSTGRES_CATALOG: 2})
    opening = asyncio.create_task(catalog.open())
    while not opening.done():
        postgres_place.run(beat)
        await asyncio.sleep(0.02)
    with pytest.raises(StoreInUse, match=r"older version of twinbus \(old\)"):
        opening.result()
    assert _format_of(postgres_place) == 2
    # It beats no more, so it is gone.
    await catalog.open()
    assert _format_of(postgres_place) == FORMAT.version
    await catalog.close()


async def test_catalog_is_not_migrated_under_a_broker_of_this_machine(
    postgres_place: PostgresPlace,
) -> None:
    """Its process is seen, though it says nothing at present."""
    catalog = await _made(postgres_place)
    _announced(postgres_place, host=this_process().host, formats={})
    with pytest.raises(StoreInUse, match="Stop it first"):
        await catalog.open()
    assert _format_of(postgres_place) == 2


async def test_brokers_that_can_read_it_do_not_keep_a_catalog_back(
    postgres_place: PostgresPlace,
) -> None:
    catalog = await _made(postgres_place)
    formats = {POSTGRES_CATALOG: FORMAT.version}
    _announced(postgres_place, host=this_process().host, formats=formats)
    await catalog.open()
    assert _format_of(postgres_place) == FORMAT.version
    await catalog.close()


async def test_catalog_of_a_newer_format_is_refused(
    postgres_place: PostgresPlace,
) -> None:
    catalog = await _made(postgres_place)
    table = f"{postgres_place.schema}_catalog.twinbus_meta"
    postgres_place.run(
        f"UPDATE {table} SET format_version = 99, min_reader_version = 98"
    )
    with pytest.raises(FormatTooNew, match="Use a newer twinbus"):
        await catalog.open()
