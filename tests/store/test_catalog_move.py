"""A catalog is moved whole, and there is one valid catalog at any moment."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from twinbus.store.base import FormatTooNew, StoreError
from twinbus.store.catalog import (
    INTENT,
    CatalogMoved,
    EntityRecord,
    unfinished,
)
from twinbus.store.catalog_move import MovableCatalog, move_catalog
from twinbus.store.postgres_catalog import PostgresCatalog

from .places import PostgresPlace, SqlitePlace

NOW = 1_000_000

Places = tuple[Callable[[], MovableCatalog], Callable[[], MovableCatalog]]


@pytest.fixture(params=["to postgres", "to sqlite"])
def places(
    request: pytest.FixtureRequest,
    sqlite_place: SqlitePlace,
    postgres_place: PostgresPlace,
) -> Places:
    """Makers of the source and of the target."""
    both: Places = sqlite_place.catalog, postgres_place.catalog
    return both if request.param == "to postgres" else (both[1], both[0])


def _entity(path: str, kind: str = "queue", **description: object) -> EntityRecord:
    return EntityRecord(
        namespace="Space",
        path=path,
        kind=kind,
        generation=path.encode().ljust(16, b"."),
        description=description,
        created_at=NOW,
        updated_at=NOW + 1,
        placement=(b"s" * 16, b"t" * 16),
    )


async def _filled(catalog: MovableCatalog) -> None:
    await catalog.open()
    await catalog.put(_entity("", "namespace", stores={"73" * 16: "/a"}))
    await catalog.put(_entity("Ärger/\u20ac", text="\x00 \U0001f600"), _entity("gone"))
    await catalog.remove(unfinished(_entity("gone"), "tombstone", NOW))
    await catalog.intend(unfinished(_entity("begun"), INTENT, NOW))
    await catalog.close()


async def _content(catalog: MovableCatalog) -> Any:
    await catalog.open()
    try:
        return await catalog.content()
    finally:
        await catalog.close()


async def test_moved_catalog_is_what_it_was(places: Places) -> None:
    source, target = places
    await _filled(source())
    before = await _content(source())
    await move_catalog(source(), target(), "the key")
    after = await _content(target())
    assert after == replace(before, root_key="the key")
    assert target().root_key("another") == "the key"
    assert len(after.entities) == 2 and len(after.unfinished) == 4


async def test_changes_go_on_where_they_were(places: Places) -> None:
    source, target = places
    await _filled(source())
    version = (await _content(source())).version
    await move_catalog(source(), target(), "")
    moved = target()
    await moved.open()
    await moved.put(_entity("new"), known=version)
    changes = await moved.changes_since(version)
    assert changes is not None and [one.path for one in changes.created] == ["new"]
    assert await moved.changes_since(version - 1) is None, "it must read everything"
    await moved.close()


async def test_old_catalog_says_where_it_went(places: Places) -> None:
    source, target = places
    await _filled(source())
    opened = source()
    await opened.open()
    await move_catalog(source(), target(), "")
    with pytest.raises(CatalogMoved, match="was moved to") as refusal:
        await source().open()
    assert target().location in str(refusal.value)
    # Whoever has it open, and slept meanwhile, cannot write to it.
    for write in (
        opened.put(_entity("late")),
        opened.intend(unfinished(_entity("late"), INTENT, NOW)),
        opened.remove([]),
    ):
        with pytest.raises(CatalogMoved):
            await write
    await opened.close()
    with pytest.raises(CatalogMoved, match="was moved to"):
        await move_catalog(source(), target(), "")


async def test_old_code_does_not_open_what_was_moved(
    sqlite_place: SqlitePlace, postgres_place: PostgresPlace
) -> None:
    await _filled(sqlite_place.catalog())
    await move_catalog(sqlite_place.catalog(), postgres_place.catalog(), "")
    from twinbus.store import sqlite_catalog

    old = replace(sqlite_catalog.FORMAT, version=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_catalog, "FORMAT", old)
        with pytest.raises(FormatTooNew):
            await sqlite_place.catalog().open()


async def test_catalog_can_be_moved_back(places: Places) -> None:
    source, target = places
    await _filled(source())
    await move_catalog(source(), target(), "")
    moved = target()
    await moved.open()
    await moved.put(_entity("new"))
    await moved.close()
    now = await _content(target())
    await move_catalog(target(), source(), "")
    assert await _content(source()) == now
    with pytest.raises(CatalogMoved):
        await target().open()


async def test_target_that_holds_a_catalog_is_refused(places: Places) -> None:
    source, target = places
    await _filled(source())
    other = target()
    await other.open()
    await other.put(_entity("precious"))
    await other.close()
    with pytest.raises(StoreError, match="holds a catalog already, with 1 entries"):
        await move_catalog(source(), target(), "")
    assert len((await _content(source())).entities) == 2
    assert [one.path for one in (await _content(target())).entities] == ["precious"]


async def test_move_to_itself_is_refused(places: Places) -> None:
    source, _ = places
    await _filled(source())
    with pytest.raises(StoreError, match=r"is in .* already"):
        await move_catalog(source(), source(), "")
    assert await _can_open(source())


STEPS = ("replace_content", "mark_moved", "mark_arrived")


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
async def test_interrupted_move_leaves_one_catalog_and_can_be_run_again(
    places: Places, step: str, is_done: bool
) -> None:
    """As a crash would end it, before or after each step."""
    make_source, make_target = places
    await _filled(make_source())
    before = await _content(make_source())
    source, target = make_source(), make_target()
    changed = source if step == "mark_moved" else target
    _break(changed, step, is_done)
    with pytest.raises(_Crash):
        await move_catalog(source, target, "")
    is_moved = step == "mark_arrived" or (step == "mark_moved" and is_done)
    opened = [one for one in (make_source(), make_target()) if await _can_open(one)]
    valid = {one.location for one in opened if await _entity_count(one)}
    if not is_moved:
        assert valid == {source.location}
    elif step == "mark_arrived" and is_done:
        assert valid == {target.location}
        return
    else:
        assert valid == set()
        with pytest.raises(CatalogMoved, match="run 'twinbus catalog move' again"):
            await make_target().open()
    await move_catalog(make_source(), make_target(), "")
    assert await _content(make_target()) == before
    assert not await _can_open(make_source())


class _Crash(Exception):
    """The end of the process."""


def _break(catalog: MovableCatalog, step: str, is_done: bool) -> None:
    real: Callable[..., Awaitable[None]] = getattr(catalog, step)

    async def broken(*arguments: Any) -> None:
        if is_done:
            await real(*arguments)
        raise _Crash

    setattr(catalog, step, broken)


async def _can_open(catalog: MovableCatalog) -> bool:
    try:
        await catalog.open()
    except CatalogMoved:
        return False
    await catalog.close()
    return True


async def _entity_count(catalog: MovableCatalog) -> int:
    return len((await _content(catalog)).entities)


async def test_copy_that_differs_is_not_used(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_source, make_target = places
    await _filled(make_source())
    target = make_target()
    real = target.replace_content

    async def forgetful(content: Any, moved_from: str) -> None:
        await real(replace(content, entities=content.entities[:1]), moved_from)

    monkeypatch.setattr(target, "replace_content", forgetful)
    with pytest.raises(StoreError, match="is not what"):
        await move_catalog(make_source(), target, "")
    assert await _entity_count(make_source()) == 2


async def test_first_key_that_is_proposed_counts(
    sqlite_place: SqlitePlace, postgres_place: PostgresPlace
) -> None:
    for make in (sqlite_place.catalog, postgres_place.catalog):
        catalog: MovableCatalog = make()
        await catalog.open()
        assert make().root_key("") == ""
        assert make().root_key("first") == "first"
        assert make().root_key("second") == "first"
        await catalog.close()


async def test_catalog_of_a_server_that_is_away_is_not_half_moved(
    sqlite_place: SqlitePlace,
) -> None:
    await _filled(sqlite_place.catalog())
    away = PostgresCatalog("postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")
    with pytest.raises(StoreError, match="could not be reached"):
        await move_catalog(sqlite_place.catalog(), away, "")
    assert await _entity_count(sqlite_place.catalog()) == 2
