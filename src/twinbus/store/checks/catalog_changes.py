"""Versions of a catalog: every write has one, and tells what it changed."""

from dataclasses import replace

from twinbus.store.base import StoreError
from twinbus.store.catalog import (
    INTENT,
    REMOVALS_KEPT,
    TOMBSTONE,
    Catalog,
    CatalogChanged,
    CatalogChanges,
    EntityRecord,
    RemovedEntity,
    unfinished,
)
from twinbus.store.checks.expectation import expect, refused
from twinbus.store.checks.places import CatalogPlace

_STORE = bytes(range(16))


def _entity(path: str, *, number: int = 1, text: str = "") -> EntityRecord:
    return EntityRecord(
        namespace="Shop",
        path=path,
        kind="queue",
        generation=bytes([number]) * 16,
        description={"text": text},
        created_at=1_700_000_000_000,
        updated_at=1_700_000_000_000,
        placement=(_STORE,),
    )


async def _opened(place: CatalogPlace) -> Catalog:
    catalog = place.catalog()
    await catalog.open()
    return catalog


async def _remove(catalog: Catalog, *entities: EntityRecord) -> None:
    await catalog.remove(
        [one for entity in entities for one in unfinished(entity, TOMBSTONE, 7)]
    )


def _removed(entity: EntityRecord) -> RemovedEntity:
    return RemovedEntity(
        namespace=entity.namespace, path=entity.path, generation=entity.generation
    )


def _changes(
    version: int,
    created: list[EntityRecord] | None = None,
    updated: list[EntityRecord] | None = None,
    removed: list[RemovedEntity] | None = None,
) -> CatalogChanges:
    return CatalogChanges(
        identity=b"",
        version=version,
        created=created or [],
        updated=updated or [],
        removed=removed or [],
    )


async def _since(catalog: Catalog, version: int) -> CatalogChanges | None:
    """What changed, of whichever catalog."""
    found = await catalog.changes_since(version)
    return None if found is None else replace(found, identity=b"")


async def check_every_write_has_a_version(place: CatalogPlace) -> None:
    catalog = await _opened(place)
    a, b = _entity("a"), _entity("b")
    first = await catalog.snapshot()
    expect((first.version, first.entities), (1, []), "a new catalog has version 1")
    await catalog.put(a, b)
    second = await catalog.snapshot()
    expect((second.version, second.entities), (2, [a, b]), "a put is one version")
    await _remove(catalog, a, b)
    third = await catalog.snapshot()
    expect((third.version, third.entities), (3, []), "a removal is one version")
    await catalog.intend(unfinished(a, INTENT, 7))
    await catalog.finish(unfinished(b, TOMBSTONE, 7))
    expect((await catalog.snapshot()).version, 3, "what is unfinished has no version")
    await catalog.close()


async def check_changes_since_a_version_are_told(place: CatalogPlace) -> None:
    catalog = await _opened(place)
    kept, changed, gone = _entity("kept"), _entity("Changed"), _entity("Gone")
    await catalog.put(kept, changed, gone)
    known = (await catalog.snapshot()).version
    after, new = replace(changed, description={"text": "new"}), _entity("new")
    await catalog.put(after)
    await catalog.put(new)
    await _remove(catalog, gone)
    expect(
        await _since(catalog, known),
        _changes(known + 3, [new], [after], [_removed(gone)]),
        "created, updated and removed since then",
    )
    expect(
        await _since(catalog, known + 1),
        _changes(known + 3, [new], [], [_removed(gone)]),
        "each write apart",
    )
    expect(await _since(catalog, known + 3), _changes(known + 3), "nothing since")
    await catalog.close()


async def check_changes_since_nothing_are_everything(place: CatalogPlace) -> None:
    catalog = await _opened(place)
    a, b = _entity("a"), _entity("b")
    await catalog.put(a)
    await catalog.put(b)
    await catalog.put(replace(a, description={"text": "new"}))
    found = await _since(catalog, 0)
    now = await catalog.snapshot()
    expect(found, _changes(4, now.entities), "all entities were created since 0")
    await catalog.close()


async def check_changes_outlive_the_one_who_made_them(place: CatalogPlace) -> None:
    catalog = await _opened(place)
    a, b = _entity("a"), _entity("b")
    await catalog.put(a)
    await catalog.put(b)
    await _remove(catalog, a)
    await catalog.close()
    catalog = await _opened(place)
    expect((await catalog.snapshot()).version, 4, "versions go on")
    found = await _since(catalog, 2)
    expect(found, _changes(4, [b], [], [_removed(a)]), "changes of before")
    await catalog.close()


async def check_each_path_is_told_once(place: CatalogPlace) -> None:
    catalog = await _opened(place)
    a, again = _entity("Path"), _entity("PATH", number=2)
    await catalog.put(a)
    await _remove(catalog, a)
    await catalog.put(again)
    found = await _since(catalog, 2)
    expect(found, _changes(4, [again]), "a new life of a path is a creation")
    await catalog.put(replace(again, description={"text": "new"}))
    found = await _since(catalog, 2)
    now = (await catalog.snapshot()).entities
    expect(found, _changes(5, now), "created since then, though changed later")
    await _remove(catalog, again)
    found = await _since(catalog, 2)
    expect(found, _changes(6, [], [], [_removed(again)]), "the last that happened")
    await catalog.close()


async def check_path_taken_by_another_generation_is_created(
    place: CatalogPlace,
) -> None:
    catalog = await _opened(place)
    await catalog.put(_entity("path"))
    other = _entity("path", number=2)
    await catalog.put(other)
    found = await _since(catalog, 2)
    expect(found, _changes(3, [other]), "another generation is another entity")
    await catalog.close()


async def check_removal_of_nothing_tells_nothing(place: CatalogPlace) -> None:
    catalog = await _opened(place)
    await _remove(catalog, _entity("never there"))
    found = await _since(catalog, 0)
    expect(found, _changes(2), "nothing was removed")
    await catalog.close()


async def check_unknown_version_is_told(place: CatalogPlace) -> None:
    catalog = await _opened(place)
    await catalog.put(_entity("a"))
    expect(await _since(catalog, 3), None, "there was no such version yet")
    expect(await _since(catalog, -1), None, "nor one before the first")
    await catalog.close()
    with refused(StoreError, "a closed catalog tells nothing"):
        await _since(catalog, 1)
    with refused(StoreError, "a closed catalog has no snapshot"):
        await catalog.snapshot()


async def check_write_that_does_not_know_the_version_is_refused(
    place: CatalogPlace,
) -> None:
    catalog = await _opened(place)
    a, b = _entity("a"), _entity("b")
    await catalog.put(a, known=1)
    with refused(CatalogChanged, "a put of one who has not seen the last write"):
        await catalog.put(b, known=1)
    with refused(CatalogChanged, "a put of one who has seen what was not written"):
        await catalog.put(b, known=3)
    with refused(CatalogChanged, "a removal likewise"):
        await catalog.remove(unfinished(a, TOMBSTONE, 7), known=1)
    now = await catalog.snapshot()
    expect((now.version, now.entities), (2, [a]), "nothing of it happened")
    expect(await catalog.unfinished(), [], "no tombstone either")
    await catalog.put(b, known=2)
    await catalog.remove(unfinished(a, TOMBSTONE, 7), known=3)
    now = await catalog.snapshot()
    expect((now.version, now.entities), (4, [b]), "with the last version it happens")
    await catalog.close()


async def check_old_removals_are_forgotten(place: CatalogPlace) -> None:
    """And only those: what exists is told since any version that is known."""
    catalog = await _opened(place)
    await catalog.put(_entity("kept"))
    portion = 1_000
    for number in range(REMOVALS_KEPT // portion + 2):
        made = [_entity(f"{number}/{i}") for i in range(portion)]
        await catalog.put(*made)
        await _remove(catalog, *made)
    last = (await catalog.snapshot()).version
    expect(await _since(catalog, 2), None, "the first removals are forgotten")
    oldest = last - 2 * (REMOVALS_KEPT // portion)
    expect(await _since(catalog, oldest - 1), None, "the version is too old")
    found = await _since(catalog, oldest)
    count = 0 if found is None else len(found.removed)
    expect(count, REMOVALS_KEPT, "the last removals are kept")
    for number in range(50):
        await catalog.put(_entity("kept", text=str(number)))
    found = await _since(catalog, last)
    updated = [] if found is None else found.updated
    expect(updated, [_entity("kept", text="49")], "many changes of one are one")
    await catalog.close()


async def check_a_catalog_has_an_identity(place: CatalogPlace) -> None:
    catalog = await _opened(place)
    identity = (await catalog.snapshot()).identity
    expect(len(identity), 16, "an identity has 16 bytes")
    await catalog.put(_entity("a"))
    found = await catalog.changes_since(1)
    assert found is not None
    expect(found.identity, identity, "changes are of the same catalog")
    await catalog.close()
    catalog = await _opened(place)
    expect((await catalog.snapshot()).identity, identity, "it stays what it is")
    await catalog.close()


CHECKS = (
    check_a_catalog_has_an_identity,
    check_every_write_has_a_version,
    check_changes_since_a_version_are_told,
    check_changes_since_nothing_are_everything,
    check_changes_outlive_the_one_who_made_them,
    check_each_path_is_told_once,
    check_path_taken_by_another_generation_is_created,
    check_removal_of_nothing_tells_nothing,
    check_unknown_version_is_told,
    check_write_that_does_not_know_the_version_is_refused,
    check_old_removals_are_forgotten,
)
