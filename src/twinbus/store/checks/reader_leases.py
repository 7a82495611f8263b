"""Reader leases: one for a fragment, as durable as the messages they promise."""

from dataclasses import replace

from twinbus.broker.changes import ChangeSet, ReaderLease
from twinbus.broker.row_id import SEQUENCE_MASK
from twinbus.store.base import CommitFailed
from twinbus.store.checks.expectation import expect, refused
from twinbus.store.checks.owner import NOW, Owner, message, owner_of, record
from twinbus.store.checks.places import StorePlace


def _lease(number: int, epoch: int = 1) -> ReaderLease:
    return ReaderLease(
        fragment_number=number,
        reader="sp\u00e4rk",
        epoch=epoch,
        duration_ms=60_000,
        expires_at=NOW + 60_000,
        planned_from=7,
        planned_through=SEQUENCE_MASK,
    )


async def _put(owner: Owner, *leases: ReaderLease) -> None:
    changes = ChangeSet()
    changes.reader_leases += leases
    await owner.commit(changes)


async def check_reader_leases_are_durable(place: StorePlace) -> None:
    owner = await owner_of(place)
    expect(await owner.store.reader_leases(), [], "a new store has no readers")
    over = ReaderLease(
        fragment_number=2, reader="", epoch=1 << 50, duration_ms=1, expires_at=0
    )
    await _put(owner, _lease(40_000), _lease(1))
    await _put(owner, over)
    owner = await owner.reopened()
    expected = [_lease(1), over, _lease(40_000)]
    expect(await owner.store.reader_leases(), expected, "by fragment, whole")
    await owner.store.close()


async def check_reader_leases_replace_each_other(place: StorePlace) -> None:
    owner = await owner_of(place)
    await _put(owner, _lease(1), _lease(2))
    other = replace(_lease(1, epoch=3), reader="other", expires_at=0)
    await _put(owner, _lease(1, epoch=2), other)
    owner = await owner.reopened()
    expect(await owner.store.reader_leases(), [other, _lease(2)], "the last one counts")
    await owner.store.close()


async def check_reader_leases_go_with_their_fragment(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.records += [record(1), record(2)]
    changes.reader_leases += [_lease(1), _lease(2)]
    await owner.commit(changes)
    changes = ChangeSet()
    # It may be renewed and dropped in one commit.
    changes.reader_leases.append(_lease(1, epoch=2))
    changes.dropped.append(1)
    await owner.commit(changes)
    expect(await owner.store.reader_leases(), [_lease(2)], "gone with its record")
    owner = await owner.reopened()
    expect(await owner.store.reader_leases(), [_lease(2)], "gone, reopened")
    await owner.store.purge(1, 100)
    changes = ChangeSet()
    changes.records.append(record(1))
    await owner.commit(changes)
    expect(await owner.store.reader_leases(), [_lease(2)], "the number is free of it")
    await owner.store.close()


async def check_reader_leases_change_with_messages(place: StorePlace) -> None:
    """One commit: what is settled, and how far."""
    owner = await owner_of(place)
    await _put(owner, _lease(1))
    changes = ChangeSet()
    changes.reader_leases.append(_lease(1, epoch=2))
    changes.active_added += [message(1, 1), message(1, 1)]
    with refused(CommitFailed, "a row id is used once"):
        await owner.commit(changes)
    expect(await owner.store.reader_leases(), [_lease(1)], "the lease is as before")
    await owner.store.close()


CHECKS = (
    check_reader_leases_are_durable,
    check_reader_leases_replace_each_other,
    check_reader_leases_go_with_their_fragment,
    check_reader_leases_change_with_messages,
)
