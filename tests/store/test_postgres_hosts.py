"""A URL with several hosts means the server that can write, whoever connects."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from bench.postgres_server import PostgresServer, store_url
from twinbus.log_export.blob_source import PostgresBlobs
from twinbus.store.postgres import PostgresStore
from twinbus.store.postgres_catalog import PostgresCatalog


@pytest.fixture(scope="module")
def standby_first() -> Iterator[list[PostgresServer]]:
    """As after a promotion: the host that is named first cannot write."""
    with PostgresServer() as primary, PostgresServer() as standby:
        standby.become_standby_of(primary)
        yield [standby, primary]


async def test_catalog_of_a_new_bus_is_made_where_it_can_be(
    standby_first: list[PostgresServer],
) -> None:
    catalog = PostgresCatalog(store_url(standby_first, "hosts_catalog"))
    assert not catalog.exists()
    await catalog.open()
    await catalog.close()
    assert catalog.exists()
    assert catalog.root_key("first") == "first"
    assert catalog.root_key("second") == "first"


async def test_log_is_exported_from_the_server_that_can_write(
    standby_first: list[PostgresServer], tmp_path: Path
) -> None:
    url = store_url(standby_first, "hosts_store")
    store = PostgresStore(url)
    await store.lease.take("test", 0)
    opened = await store.load()
    await store.close()
    blobs = PostgresBlobs(url)
    assert blobs.open() == opened.store_uuid
    blobs.close()


async def test_database_without_an_encoding_keeps_texts() -> None:
    """In such a database texts come as bytes unless one says what they are."""
    with PostgresServer() as server:
        with psycopg.connect(server.conninfo, autocommit=True) as db:
            db.execute(
                "CREATE DATABASE plain TEMPLATE template0 ENCODING 'SQL_ASCII' "
                "LC_COLLATE 'C' LC_CTYPE 'C'"
            )
        url = store_url([server], "plain").replace("/postgres?", "/plain?")
        catalog = PostgresCatalog(url)
        assert not catalog.exists()
        await catalog.open()
        await catalog.close()
        assert catalog.root_key("schlüssel") == "schlüssel"
