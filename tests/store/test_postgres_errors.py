"""What PostgreSQL's errors mean, raised by the server itself."""

import pytest

from twinbus.broker.changes import ChangeSet
from twinbus.store.base import CommitFailed, CommitUnknown, StoreError, StoreFull
from twinbus.store.checks.owner import NO_LIMIT, Owner, message, owner_of

from .places import PostgresPlace

RAISE = """
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'made to fail' USING ERRCODE = '{code}'; END $$
"""


async def failing(place: PostgresPlace, code: str) -> Owner:
    """A store whose server refuses outbox entries with that code."""
    owner = await owner_of(place)
    place.run(RAISE.format(code=code))
    place.run(
        "CREATE TRIGGER fail BEFORE INSERT ON deferred EXECUTE FUNCTION fail()",
    )
    return owner


def deferring() -> ChangeSet:
    changes = ChangeSet()
    changes.active_added.append(message(1, 1))
    changes.deferred_added.append(message(1, 2, state=1))
    return changes


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("53100", StoreFull),  # disk full
        ("53200", StoreFull),  # out of memory
        ("40001", CommitFailed),  # serialization failure
        ("40P01", CommitFailed),  # deadlock
        ("57014", CommitFailed),  # cancelled
        ("23505", CommitFailed),  # unique violation
        ("25006", CommitUnknown),  # the server has become a standby
        ("57P01", CommitUnknown),  # it is shutting down
    ],
)
async def test_error_of_the_server_says_whether_a_commit_happened(
    postgres_place: PostgresPlace, code: str, error: type[StoreError]
) -> None:
    owner = await failing(postgres_place, code)
    with pytest.raises(error):
        await owner.commit(deferring())
    assert await owner.store.last_batch() == 0
    assert await owner.store.browse(1, 0, 10, NO_LIMIT) == []
    postgres_place.run("DROP TRIGGER fail ON deferred")
    await owner.commit(deferring())
    assert len(await owner.store.browse(1, 0, 10, NO_LIMIT)) == 2
    await owner.store.close()


async def test_missing_body_is_damage(postgres_place: PostgresPlace) -> None:
    owner = await owner_of(postgres_place)
    changes = ChangeSet()
    changes.active_added.append(message(1, 1, body_id=7, is_shared=True))
    await owner.commit(changes)
    with pytest.raises(StoreError, match="shared body that is missing"):
        await owner.store.read_active(1, 0, 10, NO_LIMIT)
    with pytest.raises(StoreError, match="shared body that is missing"):
        await owner.store.outlines(1, 0, 9, 10)
    await owner.store.close()


async def test_missing_table_is_damage(postgres_place: PostgresPlace) -> None:
    owner = await owner_of(postgres_place)
    postgres_place.run("DROP TABLE scheduled")
    with pytest.raises(StoreError, match="cannot be read"):
        await owner.store.next_scheduled_at()
    await owner.store.close()


# --- room -----------------------------------------------------------------------------


async def test_room_is_what_the_url_allows(postgres_place: PostgresPlace) -> None:
    owner = await owner_of(postgres_place)
    assert await owner.store.room() > 1 << 60
    await owner.store.close()
    postgres_place.options["max_megabytes"] = "3"
    owner = await owner_of(postgres_place)
    left = await owner.store.room()
    assert 0 < left < 3 << 20
    changes = ChangeSet()
    changes.active_added.append(message(1, 1, raw=bytes(2 << 20)))
    changes.pending_bytes = 2 << 20
    await owner.commit(changes)
    assert await owner.store.room() <= left - (2 << 20)
    changes = ChangeSet()
    changes.active_added.append(message(1, 2, raw=bytes(2 << 20)))
    changes.pending_bytes = 2 << 20
    await owner.commit(changes)
    assert await owner.store.room() == 0
    await owner.store.close()
