"""The lease of a PostgreSQL store: watched by who wants it, fenced by every commit."""

import asyncio

import pytest

from twinbus.broker.changes import ChangeSet
from twinbus.clock import SystemClock
from twinbus.owner.lease_keeper import LeaseKeeper
from twinbus.store.base import (
    CommitUnknown,
    LeaseInDoubt,
    LeaseLost,
    StoreError,
    StoreInUse,
)
from twinbus.store.checks.owner import NO_LIMIT, NOW, Owner, message, owner_of
from twinbus.store.opening import open_store
from twinbus.store.postgres import PostgresStore
from twinbus.store.postgres_lease_watch import LeaseWatch

from .places import PostgresPlace

TERM_MS = 6_000


def adding(sequence: int) -> ChangeSet:
    changes = ChangeSet()
    changes.active_added.append(message(1, sequence))
    return changes


async def sequences(owner: Owner) -> list[int]:
    found = await owner.store.read_active(1, 0, 100, NO_LIMIT)
    return [m.row_id - message(1, 0).row_id for m in found]


async def test_lease_is_refused_at_first_sight_and_taken_after_a_term(
    postgres_place: PostgresPlace,
) -> None:
    old = await owner_of(postgres_place)
    second = postgres_place.store()
    assert second.lease.term_ms == TERM_MS
    with pytest.raises(LeaseInDoubt, match=r"can be taken in 6000 ms"):
        await second.lease.take("second", NOW)
    await postgres_place.later(NOW, TERM_MS - 1)
    with pytest.raises(LeaseInDoubt, match=r"can be taken in 1 ms"):
        await second.lease.take("second", NOW)
    await postgres_place.later(NOW, 1)
    assert await second.lease.take("second", NOW) == old.opened.epoch + 1
    await second.close()
    await old.store.close()


@pytest.mark.parametrize("sign", ["renewal", "commit"])
async def test_holder_that_is_heard_of_keeps_its_lease(
    postgres_place: PostgresPlace, sign: str
) -> None:
    old = await owner_of(postgres_place)
    second = postgres_place.store()
    with pytest.raises(LeaseInDoubt):
        await second.lease.take("second", NOW)
    await postgres_place.later(NOW, TERM_MS - 1)
    if sign == "commit":
        await old.commit(ChangeSet())
    else:
        await old.store.lease.renew(NOW)
    await postgres_place.later(NOW, 1)
    with pytest.raises(StoreInUse, match="in use by check_store") as refusal:
        await second.lease.take("second", NOW)
    assert not isinstance(refusal.value, LeaseInDoubt), "it is alive"
    await old.store.close()


async def test_owner_that_was_frozen_before_its_commit_cannot_commit(
    postgres_place: PostgresPlace,
) -> None:
    zombie = await owner_of(postgres_place)
    await zombie.commit(adding(1))
    second = postgres_place.store()
    with pytest.raises(LeaseInDoubt):
        await second.lease.take("second", NOW)
    await postgres_place.later(NOW, TERM_MS)
    new = Owner(postgres_place, second, await open_store(second, "second", NOW))
    with pytest.raises(LeaseLost):
        await zombie.commit(adding(2))
    await new.commit(adding(3))
    with pytest.raises(LeaseLost):
        await zombie.commit(adding(4))
    assert await sequences(new) == [1, 3]
    await zombie.store.close()
    await new.commit(adding(5))
    await new.store.close()


async def test_what_waits_in_an_old_connection_is_refused(
    postgres_place: PostgresPlace,
) -> None:
    """The owner has lost its connection and made another, but the server has not
    worked off the old one."""
    owner = await owner_of(postgres_place)
    await owner.commit(adding(1))
    server = owner.store._server  # type: ignore[attr-defined]
    old_fence = await server.ready()
    server._writer.end()
    assert await owner.store.last_batch() == 1
    assert server.number == old_fence["connection"] + 1
    server.number = old_fence["connection"]
    with pytest.raises(LeaseLost):
        await owner.commit(adding(2))
    assert await sequences(owner) == [1]
    server.number += 1
    await owner.store.close()


async def test_of_two_takers_one_wins(postgres_place: PostgresPlace) -> None:
    await (await owner_of(postgres_place)).store.abandon()  # type: ignore[attr-defined]
    takers = [postgres_place.store() for _ in range(4)]
    with pytest.raises(LeaseInDoubt):
        await takers[0].lease.take("first", NOW)
    await postgres_place.later(NOW, TERM_MS)
    outcomes = await asyncio.gather(
        *(taker.lease.take("taker", NOW) for taker in takers), return_exceptions=True
    )
    epochs = [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert epochs == [2]
    refusals = [outcome for outcome in outcomes if not isinstance(outcome, int)]
    assert all(isinstance(refusal, StoreError) for refusal in refusals), refusals
    for taker in takers:
        await taker.close()


async def test_of_two_that_make_a_store_both_find_the_same(
    postgres_place: PostgresPlace,
) -> None:
    stores = [postgres_place.store() for _ in range(3)]
    outcomes = await asyncio.gather(
        *(store.lease.take("first", NOW) for store in stores), return_exceptions=True
    )
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [1]
    for store in stores:
        await store.close()
    assert postgres_place.run("SELECT count(*) FROM twinbus_meta") == [(1,)]


async def test_takeover_ends_the_connections_of_the_predecessor(
    postgres_place: PostgresPlace,
) -> None:
    old = await owner_of(postgres_place)
    await old.store.session_state(1, "s")  # opens the reader's connection
    application = old.store._server.application  # type: ignore[attr-defined]
    asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    assert postgres_place.run(asked, application) == [(2,)]
    await postgres_place.orphan()
    new = await owner_of(postgres_place)
    assert postgres_place.run(asked, application) == [(0,)]
    await new.store.close()
    await old.store.close()


async def test_starting_broker_waits_for_the_lease_of_a_dead_one(
    postgres_place: PostgresPlace,
) -> None:
    postgres_place.options["lease_ms"] = "1000"
    dead = postgres_place.store()
    await dead.lease.take("dead", NOW)
    await dead.abandon()
    clock = SystemClock()
    store = PostgresStore(postgres_place.url, watch=LeaseWatch(clock.monotonic))
    begun = clock.monotonic()
    opened = await LeaseKeeper(store, clock).take_from_the_dead("next")
    assert opened.epoch == 2
    assert clock.monotonic() - begun >= 1_000
    await store.close()


async def test_lost_connection_while_idle_is_made_again(
    postgres_place: PostgresPlace,
) -> None:
    owner = await owner_of(postgres_place)
    await owner.commit(adding(1))
    postgres_place.end_backends()
    assert await sequences(owner) == [1]
    assert await owner.store.session_state(1, "s") is None
    postgres_place.end_backends()
    with pytest.raises(CommitUnknown):
        await owner.commit(adding(2))
    assert await owner.store.last_batch() == 1
    await owner.commit(adding(2))
    postgres_place.end_backends()
    assert await owner.store.session_state(1, "s") is None
    await owner.store.close()


async def test_own_lease_that_could_not_be_given_back_is_taken_at_once(
    postgres_place: PostgresPlace,
) -> None:
    """Its server was away when it should have been; nobody else has it."""
    owner = await owner_of(postgres_place)
    await owner.commit(adding(1))
    await owner.store.abandon()
    other = postgres_place.store()
    with pytest.raises(LeaseInDoubt):
        await other.lease.take("other", NOW)
    opened = await open_store(owner.store, "again", NOW)
    assert opened.epoch == owner.opened.epoch + 1
    assert opened.last_batch == 1
    # And what another has taken meanwhile is not ours.
    await owner.store.abandon()
    with pytest.raises(StoreInUse):
        await other.lease.take("other", NOW)
    await postgres_place.later(NOW, TERM_MS)
    await other.lease.take("other", NOW)
    with pytest.raises(StoreInUse, match="in use by other"):
        await open_store(owner.store, "again", NOW)
    await other.close()
    await owner.store.close()


async def test_lease_that_was_looked_at_before_is_taken_when_its_term_is_over(
    postgres_place: PostgresPlace,
) -> None:
    old = await owner_of(postgres_place)
    second = postgres_place.store()
    await second.lease.look()
    await postgres_place.later(NOW, TERM_MS)
    assert await second.lease.take("second", NOW) == old.opened.epoch + 1
    await second.close()
    await old.store.close()


async def test_lease_of_a_process_that_has_ended_is_taken_at_once(
    postgres_place: PostgresPlace,
) -> None:
    old = await owner_of(postgres_place)
    second = postgres_place.store()
    second.lease.holder_ended(old.opened.epoch - 1)
    with pytest.raises(LeaseInDoubt):
        await second.lease.take("second", NOW)
    second.lease.holder_ended(old.opened.epoch)
    assert await second.lease.take("second", NOW) == old.opened.epoch + 1
    with pytest.raises(LeaseLost):
        await old.commit(adding(1))
    await second.close()
    await old.store.close()
