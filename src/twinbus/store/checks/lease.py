"""One owner at a time: the lease, its epoch, and the numbers of commits (D4)."""

from twinbus.broker.changes import ChangeSet
from twinbus.store.base import CommitFailed, LeaseLost, StoreError, StoreInUse
from twinbus.store.checks.expectation import expect, refused
from twinbus.store.checks.owner import NO_LIMIT, NOW, Owner, message, owner_of
from twinbus.store.checks.places import StorePlace


async def check_new_store_is_empty(place: StorePlace) -> None:
    owner = await owner_of(place)
    expect(len(owner.opened.store_uuid), 16, "a store has a uuid")
    expect(owner.opened.last_batch, 0, "nothing was committed to a new store")
    expect(owner.opened.fragments, [], "a new store has no fragments")
    expect(owner.opened.purging, [], "a new store purges nothing")
    expect(owner.opened.next_scheduled_at, 0, "a new store schedules nothing")
    expect(await owner.store.last_batch(), 0, "nothing was committed")
    await owner.store.close()


async def check_opening_raises_the_epoch(place: StorePlace) -> None:
    first = await owner_of(place)
    await first.commit(ChangeSet())
    second = await first.reopened()
    expect(second.opened.epoch, first.opened.epoch + 1, "opening raises the epoch")
    expect(second.opened.store_uuid, first.opened.store_uuid, "a store keeps its uuid")
    expect(second.opened.last_batch, first.batch, "numbering of commits goes on")
    await second.store.close()


async def check_store_object_can_be_reopened(place: StorePlace) -> None:
    owner = await owner_of(place)
    await owner.commit(ChangeSet())
    await owner.store.close()
    again = Owner(place, owner.store, await owner.store.open("again", NOW))
    expect(again.opened.last_batch, 1, "closing keeps what was committed")
    await again.commit(ChangeSet())
    await again.store.close()


async def check_second_owner_is_refused(place: StorePlace) -> None:
    owner = await owner_of(place)
    with refused(StoreInUse, "a store in use cannot be opened"):
        await place.store().open("second", NOW)
    with refused(StoreInUse, "an open store cannot be opened again"):
        await owner.store.open("twice", NOW)
    await owner.commit(ChangeSet())
    expect(await owner.store.last_batch(), 1, "a refused opening disturbs nobody")
    await owner.store.close()


async def check_closed_store_does_nothing(place: StorePlace) -> None:
    owner = await owner_of(place)
    await owner.store.close()
    await owner.store.close()
    with refused(StoreError, "a closed store does not read"):
        await owner.store.last_batch()
    with refused(StoreError, "a closed store does not commit"):
        await owner.commit(ChangeSet())


async def check_replaced_owner_cannot_write(place: StorePlace) -> None:
    old = await owner_of(place)
    await place.orphan()
    new = await owner_of(place)
    expect(new.opened.epoch, old.opened.epoch + 1, "a takeover raises the epoch")
    changes = ChangeSet()
    changes.active_added.append(message(0, 1))
    with refused(LeaseLost, "a replaced owner cannot commit"):
        await old.commit(changes)
    with refused(LeaseLost, "a replaced owner cannot purge"):
        await old.store.purge(0, 1)
    with refused(LeaseLost, "a replaced owner cannot trim"):
        await old.store.trim(operations_through=1, now=1)
    expect(await new.store.last_batch(), 0, "a refused commit is not counted")
    left = await new.store.read_active(0, 0, 10, NO_LIMIT)
    expect(left, [], "a refused commit leaves nothing")
    await old.store.close()
    with refused(StoreInUse, "closing a replaced owner does not free the lease"):
        await place.store().open("third", NOW)
    await new.commit(ChangeSet())
    await new.store.close()


async def check_change_set_of_another_epoch_is_refused(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.seal(owner.opened.epoch - 1, 1, NOW)
    with refused(LeaseLost, "a change set belongs to the epoch it was sealed in"):
        await owner.store.commit(changes)
    await owner.store.close()


async def check_commit_numbers_rise(place: StorePlace) -> None:
    owner = await owner_of(place)
    await owner.commit(ChangeSet())
    expect(await owner.store.last_batch(), 1, "a commit is counted")
    for number in (0, 1):
        repeated = ChangeSet()
        repeated.seal(owner.opened.epoch, number, NOW)
        with refused(CommitFailed, "a commit number is used once"):
            await owner.store.commit(repeated)
    await owner.commit(ChangeSet())
    expect(await owner.store.last_batch(), 2, "a refused number is not counted")
    await owner.store.close()


CHECKS = (
    check_new_store_is_empty,
    check_opening_raises_the_epoch,
    check_store_object_can_be_reopened,
    check_second_owner_is_refused,
    check_closed_store_does_nothing,
    check_replaced_owner_cannot_write,
    check_change_set_of_another_epoch_is_refused,
    check_commit_numbers_rise,
)
