"""Schemas: made once, recognised, migrated, and refused if they are not ours."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from bench.postgres_server import TEST_SETTINGS, PostgresServer
from twinbus.store import postgres_schema
from twinbus.store.base import FormatTooNew, StoreError, StoreInUse, StoreUnreadable
from twinbus.store.checks.owner import NOW, owner_of
from twinbus.store.opening import open_store
from twinbus.store.postgres import PostgresStore
from twinbus.store.postgres_catalog import PostgresCatalog
from twinbus.store.postgres_format import FORMAT
from twinbus.store.postgres_schema import PostgresFormat, open_schema
from twinbus.store.postgres_session import connect
from twinbus.store.postgres_url import parse_postgres_url
from twinbus.store.statements import migrations

from .places import PostgresPlace


async def _anybody_may() -> None:
    """Nobody uses the schema."""


async def refused(place: PostgresPlace) -> StoreError:
    with pytest.raises(StoreError) as refusal:
        await open_store(place.store(), "test", NOW)
    return refusal.value


async def test_schema_of_others_is_left_alone(postgres_place: PostgresPlace) -> None:
    schema = postgres_place.schema
    postgres_place.run(f"CREATE SCHEMA {schema}")
    postgres_place.run("CREATE TABLE customers (name text)")
    refusal = await refused(postgres_place)
    assert isinstance(refusal, StoreUnreadable)
    assert "not twinbus's (customers, for example)" in str(refusal)
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"
    assert postgres_place.run(tables, schema) == [(1,)]


async def test_empty_schema_that_was_made_for_us_is_used(
    postgres_place: PostgresPlace,
) -> None:
    postgres_place.run(f"CREATE SCHEMA {postgres_place.schema}")
    await (await owner_of(postgres_place)).store.close()


async def test_catalog_is_no_store(postgres_place: PostgresPlace) -> None:
    catalog = PostgresCatalog(postgres_place.url)
    assert not catalog.exists()
    await catalog.open()
    assert catalog.exists()
    await catalog.close()
    assert "is a catalog, and not a store" in str(await refused(postgres_place))


async def test_newer_format_is_refused(postgres_place: PostgresPlace) -> None:
    await (await owner_of(postgres_place)).store.close()
    postgres_place.run("UPDATE twinbus_meta SET format_version = 9")
    await (await owner_of(postgres_place)).store.close()
    postgres_place.run("UPDATE twinbus_meta SET min_reader_version = 8")
    refusal = await refused(postgres_place)
    assert isinstance(refusal, FormatTooNew)
    assert "has format 9" in str(refusal) and "knows format 8" in str(refusal)


async def test_damaged_schema_is_refused_by_name(postgres_place: PostgresPlace) -> None:
    await (await owner_of(postgres_place)).store.close()
    postgres_place.run("DROP TABLE rule")
    assert "lacks the table rule" in str(await refused(postgres_place))
    postgres_place.run("DELETE FROM twinbus_meta")
    assert "its format version is missing" in str(await refused(postgres_place))


def test_every_format_has_its_migration() -> None:
    numbers = [number for number, _ in migrations(FORMAT.migrations)]
    assert numbers == list(range(1, FORMAT.version + 1))


async def test_older_format_is_migrated_in_one_transaction(
    postgres_place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A format that does not exist yet: its second step fails at first."""
    owner = await owner_of(postgres_place)
    await owner.store.close()
    steps = ["CREATE TABLE added (x bigint)", "SELECT 1 / 0"]
    later = [*migrations(FORMAT.migrations), (FORMAT.version + 1, steps)]
    monkeypatch.setattr(postgres_schema, "migrations", lambda folder: later)
    expected = PostgresFormat(
        kind="store",
        migrations=FORMAT.migrations,
        version=FORMAT.version + 1,
        tables=FORMAT.tables | {"added"},
    )
    url = parse_postgres_url(postgres_place.url, "unused")
    session = await connect(url, "test")
    with pytest.raises(StoreError, match="division by zero"):
        await open_schema(session, url, expected, before_migration=_anybody_may)
    tables = (
        "SELECT count(*) FROM pg_tables WHERE tablename = 'added' AND schemaname = %s"
    )
    assert postgres_place.run(tables, postgres_place.schema) == [(0,)]
    steps[1] = f"UPDATE twinbus_meta SET format_version = {FORMAT.version + 1}"
    await open_schema(session, url, expected, before_migration=_anybody_may)
    await open_schema(session, url, expected, before_migration=_anybody_may)
    assert postgres_place.run(tables, postgres_place.schema) == [(1,)]
    await session.close()
    await (await owner_of(postgres_place)).store.close()


async def test_schema_that_is_being_made_for_long_is_tried_later(
    postgres_place: PostgresPlace,
) -> None:
    with psycopg.connect(postgres_place.server.conninfo) as other:
        await (await owner_of(postgres_place)).store.close()
        postgres_place.run("UPDATE twinbus_meta SET format_version = 0")
        other.execute(f"LOCK TABLE {postgres_place.schema}.twinbus_meta")
        refusal = await refused(postgres_place)
        assert isinstance(refusal, StoreInUse)
        other.rollback()


# --- what a server must do ------------------------------------------------------------


async def test_server_that_does_not_sync_is_refused(
    postgres_place: PostgresPlace,
) -> None:
    url = postgres_place.server.url(postgres_place.schema)
    for setting in ("&synchronous_commit=on", ""):
        careless = url.replace("&synchronous_commit=on", setting)
        if setting:
            store = PostgresStore(careless, watch=postgres_place.watch)
            await open_store(store, "test", NOW)
            await store.close()
        else:
            with pytest.raises(StoreError, match="fsync = off"):
                await open_store(PostgresStore(careless), "test", NOW)


@pytest.fixture
def guarded_server(tmp_path: Path) -> Iterator[PostgresServer]:
    """Wants a password."""
    with PostgresServer(TEST_SETTINGS) as server:
        with psycopg.connect(server.conninfo, autocommit=True) as db:
            db.execute("CREATE USER guarded PASSWORD 'right-s3cret' NOSUPERUSER")
            (file,) = db.execute("SHOW hba_file").fetchone() or ("",)
            Path(file).write_text(
                "local all guarded scram-sha-256\nlocal all all trust\n"
            )
            db.execute("SELECT pg_reload_conf()")
        yield server


async def test_refused_password_is_not_shown(
    guarded_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = guarded_server.url("s").replace("twinbus@", "guarded:wrong-s3cret@")
    store = PostgresStore(url)
    with pytest.raises(StoreError, match="authentication failed") as refusal:
        await open_store(store, "test", NOW)
    chain, error = [], refusal.value
    while error is not None:
        chain.append(repr(error) + str(error))
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    assert "s3cret" not in "".join(chain) + caplog.text + repr(store)


async def test_user_without_rights_is_told_which(
    guarded_server: PostgresServer,
) -> None:
    url = guarded_server.url("s").replace("twinbus@", "guarded:right-s3cret@")
    with pytest.raises(StoreError, match="Grant the user CREATE on the database"):
        await open_store(PostgresStore(url), "test", NOW)
    with psycopg.connect(guarded_server.conninfo, autocommit=True) as db:
        db.execute("CREATE SCHEMA s AUTHORIZATION guarded")
    store = PostgresStore(url)
    await open_store(store, "test", NOW)
    await store.close()
