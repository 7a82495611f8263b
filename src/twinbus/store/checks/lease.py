"""One owner at a time: the lease, its epoch and its term, and the numbers of commits
(D4)."""

from twinbus.broker.changes import ChangeSet
from twinbus.store.base import CommitFailed, LeaseLost, StoreError, StoreInUse
from twinbus.store.checks.expectation import expect, refused
from twinbus.store.checks.owner import NO_LIMIT, NOW, Owner, message, owner_of
from twinbus.store.checks.places import StorePlace
from twinbus.store.lease import HeldLease
from twinbus.store.opening import open_store


async def check_new_store_is_empty(place: StorePlace) -> None:
    owner = await owner_of(place)
    expect(len(owner.opened.store_uuid), 16, "a store has a uuid")
    expect(owner.opened.last_batch, 0, "nothing was committed to a new store")
    expect(owner.opened.fragments, [], "a new store has no fragments")
    expect(owner.opened.purging, [], "a new store purges nothing")
    expect(owner.opened.next_scheduled_at, 0, "a new store schedules nothing")
    expect(await owner.store.last_batch(), 0, "nothing was committed")
    await owner.store.close()


async def check_every_take_raises_the_epoch(place: StorePlace) -> None:
    first = await owner_of(place)
    await first.commit(ChangeSet())
    second = await first.reopened()
    expect(
        second.opened.epoch, first.opened.epoch + 1, "taking the lease raises the epoch"
    )
    expect(second.opened.store_uuid, first.opened.store_uuid, "a store keeps its uuid")
    expect(second.opened.last_batch, first.batch, "numbering of commits goes on")
    await second.store.close()


async def check_store_object_can_be_reopened(place: StorePlace) -> None:
    owner = await owner_of(place)
    await owner.commit(ChangeSet())
    await owner.store.close()
    again = Owner(place, owner.store, await open_store(owner.store, "again", NOW))
    expect(again.opened.last_batch, 1, "closing keeps what was committed")
    await again.commit(ChangeSet())
    await again.store.close()


async def check_second_owner_is_refused(place: StorePlace) -> None:
    owner = await owner_of(place)
    with refused(StoreInUse, "a store in use cannot be opened"):
        await open_store(place.store(), "second", NOW)
    with refused(StoreInUse, "an open store cannot be opened again"):
        await open_store(owner.store, "twice", NOW)
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
        await open_store(place.store(), "third", NOW)
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


# --- renewing, losing, expiring ---------------------------------------------------


async def check_taking_tells_the_epoch(place: StorePlace) -> None:
    store = place.store()
    for epoch in (1, 2, 3):
        expect(await store.lease.take("check", NOW), epoch, "one more than the last")
        expect((await store.load()).epoch, epoch, "the store says the same")
        await store.lease.give_back()
    with refused(StoreError, "nothing is read without the lease"):
        await store.load()


async def check_lease_given_back_is_free_at_once(place: StorePlace) -> None:
    owner = await owner_of(place)
    await owner.store.lease.give_back()
    await owner.store.lease.give_back()
    with refused(StoreError, "nothing is committed after the lease was given back"):
        await owner.commit(ChangeSet())
    with refused(StoreError, "what was given back cannot be renewed"):
        await owner.store.lease.renew(NOW)
    second = await owner_of(place)
    expect(second.opened.epoch, owner.opened.epoch + 1, "another can take it")
    await owner.store.lease.give_back()
    with refused(StoreInUse, "what was given back is not given back again"):
        await open_store(place.store(), "third", NOW)
    await second.store.close()


async def check_renewing_keeps_epoch_and_content(place: StorePlace) -> None:
    owner = await owner_of(place)
    await owner.commit(ChangeSet())
    await owner.store.lease.renew(NOW)
    await owner.store.lease.renew(NOW)
    await owner.commit(ChangeSet())
    opened = await owner.store.load()
    expect(opened.epoch, owner.opened.epoch, "renewing does not raise the epoch")
    expect(opened.last_batch, 2, "commits go on")
    await owner.store.close()


async def check_lost_lease_is_not_renewed(place: StorePlace) -> None:
    old = await owner_of(place)
    await place.orphan()
    new = await owner_of(place)
    with refused(LeaseLost, "a lease that another has taken cannot be renewed"):
        await old.store.lease.renew(NOW)
    await new.store.lease.renew(NOW)
    await old.store.lease.give_back()
    await new.commit(ChangeSet())
    with refused(StoreInUse, "giving a lost lease back does not free it"):
        await open_store(place.store(), "third", NOW)
    await new.store.close()


async def check_holder_knows_the_end_before_others(place: StorePlace) -> None:
    """By its own clock, which may run while the store is being asked."""
    asked_at, store = 5_000, place.store()
    epoch = await store.lease.take("check", NOW)
    term_ms = store.lease.term_ms
    held = HeldLease(epoch, term_ms, asked_at)
    ends_ms = next((ms for ms in range(term_ms) if held.is_expired(asked_at + ms)), 0)
    renews_ms = next((ms for ms in range(term_ms) if held.must_renew(asked_at + ms)), 0)
    if term_ms == 0:
        expect(held.is_expired(1 << 60), False, "without a term it does not end")
        expect(held.must_renew(1 << 60), False, "nor is it renewed")
    else:
        expect(0 < 2 * renews_ms < ends_ms < term_ms, True, "renewed twice, then over")
    now = await place.later(NOW, ends_ms)
    with refused(StoreInUse, "nobody else gets it when it is over for its holder"):
        await open_store(place.store(), "second", now)
    await store.lease.renew(now)
    await store.close()


async def check_lease_lasts_for_its_term(place: StorePlace) -> None:
    """Without a term: as long as its holder."""
    old = await owner_of(place)
    term_ms = old.store.lease.term_ms
    now = await place.later(NOW, term_ms // 2)
    await old.store.lease.renew(now)
    # Past the first term, within the second.
    now = await place.later(now, term_ms * 3 // 4)
    with refused(StoreInUse, "a renewed lease lasts for another term"):
        await open_store(place.store(), "second", now)
    now = await place.later(now, term_ms)
    second = place.store()
    if term_ms == 0:
        with refused(StoreInUse, "a lease without a term does not expire"):
            await open_store(second, "second", now + 1_000_000_000)
        await old.commit(ChangeSet())
    else:
        new = Owner(place, second, await open_store(second, "second", now))
        expect(new.opened.epoch, old.opened.epoch + 1, "an expired lease can be taken")
        with refused(LeaseLost, "a commit under a lease that another has is refused"):
            await old.commit(ChangeSet())
        with refused(LeaseLost, "nor can it be renewed"):
            await old.store.lease.renew(now)
        await new.commit(ChangeSet())
    await second.close()
    await old.store.close()


async def check_expired_lease_that_nobody_took_goes_on(place: StorePlace) -> None:
    owner = await owner_of(place)
    now = await place.later(NOW, 2 * owner.store.lease.term_ms)
    await owner.store.lease.renew(now)
    await owner.commit(ChangeSet())
    with refused(StoreInUse, "it is held again"):
        await open_store(place.store(), "second", now)
    await owner.store.close()


CHECKS = (
    check_new_store_is_empty,
    check_every_take_raises_the_epoch,
    check_store_object_can_be_reopened,
    check_second_owner_is_refused,
    check_closed_store_does_nothing,
    check_replaced_owner_cannot_write,
    check_change_set_of_another_epoch_is_refused,
    check_commit_numbers_rise,
    check_taking_tells_the_epoch,
    check_lease_given_back_is_free_at_once,
    check_renewing_keeps_epoch_and_content,
    check_lost_lease_is_not_renewed,
    check_holder_knows_the_end_before_others,
    check_lease_lasts_for_its_term,
    check_expired_lease_that_nobody_took_goes_on,
)
