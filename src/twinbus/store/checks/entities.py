"""Entities of fragments: kept whole, replaced, and gone with the fragments."""

from twinbus.broker.changes import ChangeSet, StoredEntity
from twinbus.broker.message import SCHEDULED
from twinbus.store.base import CommitFailed
from twinbus.store.checks.expectation import expect, refused
from twinbus.store.checks.owner import NOW, Owner, all_values, message, owner_of
from twinbus.store.checks.places import StorePlace


def _entity(number: int, definition: str = '{"path": "\u00fc"}') -> StoredEntity:
    return StoredEntity(generation=bytes([number]) * 16, definition=definition)


async def _found(owner: Owner) -> list[StoredEntity]:
    return sorted(await owner.store.entities(), key=lambda one: one.generation)


async def check_entities_are_kept_and_replaced(place: StorePlace) -> None:
    owner = await owner_of(place)
    expect(await owner.store.entities(), [], "a new store has none")
    changes = ChangeSet()
    changes.entities_put += [_entity(2), _entity(1)]
    await owner.commit(changes)
    changes = ChangeSet()
    changes.entities_put += [_entity(2, "{}"), _entity(3, "{}"), _entity(3)]
    await owner.commit(changes)
    owner = await owner.reopened()
    expected = [_entity(1), _entity(2, "{}"), _entity(3)]
    expect(await _found(owner), expected, "the last that was put of each")
    await owner.store.close()


async def check_entities_are_removed(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.entities_put += [_entity(1), _entity(2)]
    await owner.commit(changes)
    changes = ChangeSet()
    changes.entities_put.append(_entity(3))
    changes.entities_removed += [_entity(n).generation for n in (1, 3, 9)]
    await owner.commit(changes)
    owner = await owner.reopened()
    expect(await _found(owner), [_entity(2)], "put first, then removed")
    await owner.store.close()


async def check_entities_change_with_messages(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.entities_put.append(_entity(1))
    changes.active_added += [message(1, 1), message(1, 1)]
    with refused(CommitFailed, "a row id is used once"):
        await owner.commit(changes)
    expect(await owner.store.entities(), [], "nothing of the commit happened")
    await owner.store.close()


async def check_schedules_of_others_are_passed_over(place: StorePlace) -> None:
    owner = await owner_of(place)
    others = [
        message(number, 1, state=SCHEDULED, scheduled_at=NOW + number)
        for number in (1, 2, 65_535)
    ]
    own = message(7, 1, state=SCHEDULED, scheduled_at=NOW + 9)
    changes = ChangeSet()
    changes.scheduled_added += [*others, own]
    await owner.commit(changes)
    store, without = owner.store, [1, 2, 65_535]
    found = await store.due(NOW + 9, 1, without)
    expect(all_values(found), all_values([own]), "the limit does not count others")
    expect(await store.due(NOW + 8, 9, without), [], "not due yet")
    expect(await store.next_scheduled_at(without), NOW + 9, "the first of the rest")
    expect(await store.next_scheduled_at([1]), NOW + 2, "others as well")
    expect(await store.next_scheduled_at([*without, 7]), 0, "nothing is left")
    await store.close()


CHECKS = (
    check_entities_are_kept_and_replaced,
    check_entities_are_removed,
    check_entities_change_with_messages,
    check_schedules_of_others_are_passed_over,
)
