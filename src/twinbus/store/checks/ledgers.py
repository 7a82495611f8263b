"""Outbox and ledgers, and the operation log."""

from twinbus.broker.changes import ChangeSet, LedgerId, LedgerRange, OutboxEntry
from twinbus.broker.operation_log import COMPLETE, SEND
from twinbus.broker.operation_record import decode_operations
from twinbus.store.checks.expectation import expect
from twinbus.store.checks.owner import GENERATION, NOW, Owner, owner_of
from twinbus.store.checks.places import StorePlace


def _entry(entry_id: int) -> OutboxEntry:
    return OutboxEntry(
        entry_id=entry_id,
        target=f"queue/{entry_id}",
        raw=bytes([entry_id]) * entry_id,
        origin=b"\0origin\xff",
    )


async def check_outbox_is_a_queue(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.outbox_added += [_entry(2), _entry(3), _entry(1)]
    await owner.commit(changes)
    owner = await owner.reopened()
    oldest = await owner.store.outbox(2)
    expect(oldest, [_entry(1), _entry(2)], "the oldest entries, within the limit")
    changes = ChangeSet()
    changes.outbox_removed += [1, 3]
    changes.outbox_added.append(_entry(4))
    await owner.commit(changes)
    expect(await owner.store.outbox(9), [_entry(2), _entry(4)], "delivered ones go")
    await owner.store.close()


async def check_outbox_has_lanes(place: StorePlace) -> None:
    owner = await owner_of(place)
    entries = [
        OutboxEntry(entry_id=n, target=target, raw=bytes(10 * n), origin=origin)
        for n, target, origin in (
            *((1, "aa/1", b"d"), (2, "bb/1", b"d"), (3, "aa/2", b"d")),
            *((4, "aa/1", b"f"), (5, "aa/1", b"d")),
        )
    ]
    changes = ChangeSet()
    changes.outbox_added += entries
    await owner.commit(changes)
    owner = await owner.reopened()
    store = owner.store
    first, second, third, fourth, fifth = entries
    found = await store.outbox(9, lane="aa")
    expect(found, [first, third, fourth, fifth], "the entries of a lane, in order")
    found = await store.outbox(2, lane="aa", after=1)
    expect(found, [third, fourth], "the oldest after an id")
    found = await store.outbox(9, lane="aa", limit_bytes=40)
    expect(found, [first, third], "no more once they have the bytes")
    found = await store.outbox(9, lane="bb", limit_bytes=1)
    expect(found, [second], "one at least")
    totals = {
        (one.target, one.origin): (one.entry_count, one.size_bytes)
        for one in await store.outbox_totals()
    }
    expected = {
        ("aa/1", b"d"): (2, 60),
        ("aa/1", b"f"): (1, 40),
        ("aa/2", b"d"): (1, 30),
        ("bb/1", b"d"): (1, 20),
    }
    expect(totals, expected, "counts and bytes by target and origin")
    await store.close()


async def check_a_range_from_zero_grows(place: StorePlace) -> None:
    """As lanes of an outbox record how far they have come."""
    owner = await owner_of(place)
    for last in (1 << 40, (1 << 40) + 7, 1 << 60):
        await _restore(owner, (0, last))
        found = await owner.store.restored("site", GENERATION, [0, 5, last, last + 1])
        expect(found, {0, 5, last}, f"numbers through {last}")
    await owner.store.close()


async def _restore(owner: Owner, *ranges: tuple[int, int]) -> None:
    changes = ChangeSet()
    changes.ledger_ranges += [
        LedgerRange(source="site", generation=GENERATION, first=first, last=last)
        for first, last in ranges
    ]
    await owner.commit(changes)


async def check_ranges_add_up(place: StorePlace) -> None:
    owner = await owner_of(place)
    highest = (1 << 48) - 1
    everything = [*range(60), highest]
    known: set[int] = set()
    for added in (
        [(10, 20)],
        [(21, 25)],  # adjoins
        [(5, 12)],  # overlaps at the front
        [(30, 40), (50, 50)],
        [(24, 31)],  # joins two
        [(0, 0)],
        [(32, 33)],  # lies within
        [(1, 59)],  # covers all
        [(highest, highest)],
    ):
        await _restore(owner, *added)
        for first, last in added:
            known.update(range(first, last + 1))
        found = await owner.store.restored("site", GENERATION, everything)
        expect(found, known, f"numbers restored after {added}")
    owner = await owner.reopened()
    found = await owner.store.restored("site", GENERATION, everything)
    expect(found, known, "numbers restored, reopened")
    await owner.store.close()


async def check_ranges_are_of_one_source(place: StorePlace) -> None:
    owner = await owner_of(place)
    await _restore(owner, (1, 5))
    other = await owner.store.restored("elsewhere", GENERATION, [1])
    expect(other, set(), "of another source nothing was restored")
    other = await owner.store.restored("site", bytes(16), [1])
    expect(other, set(), "of another generation nothing was restored")
    expect(await owner.store.restored("site", GENERATION, []), set(), "none asked")
    await owner.store.close()


def _id(fragment_number: int, unique_id: bytes, forget_at: int) -> LedgerId:
    return LedgerId(
        fragment_number=fragment_number, unique_id=unique_id, forget_at=forget_at
    )


async def check_ids_are_remembered_for_their_time(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.ledger_ids += [
        _id(1, b"a", NOW + 1),
        _id(1, b"", NOW + 2),
        _id(2, b"b", NOW + 3),
    ]
    await owner.commit(changes)
    owner = await owner.reopened()
    seen = owner.store.seen
    asked = [b"a", b"", b"b"]
    expect(await seen(1, asked, NOW), {b"a", b""}, "ids of 1")
    expect(await seen(2, asked, NOW), {b"b"}, "ids of 2")
    expect(await seen(1, asked, NOW + 1), {b""}, "forgotten at its time, not after")
    expect(await seen(1, asked, NOW + 2), set(), "all are forgotten")
    await owner.store.close()


async def check_ids_are_trimmed(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.ledger_ids += [_id(1, i, NOW + 1) for i in (b"a", b"b")]
    changes.ledger_ids.append(_id(1, b"c", NOW + 2))
    await owner.commit(changes)
    changes = ChangeSet()
    changes.ledger_ids += [_id(1, b"a", NOW + 9), _id(1, b"a", NOW + 5)]
    await owner.commit(changes)
    trimmed = await owner.store.trim(operations_through=0, now=NOW + 1)
    expect(trimmed, True, "no such id is left")
    found = await owner.store.seen(1, [b"a", b"b", b"c"], NOW)
    expect(found, {b"a", b"c"}, "ids whose time has passed are gone")
    found = await owner.store.seen(1, [b"a", b"b", b"c"], NOW + 8)
    expect(found, {b"a"}, "seen again is kept for the longer time")
    await owner.store.close()


async def check_ids_are_trimmed_in_portions(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    ids = [bytes([number]) for number in range(5)]
    changes.ledger_ids += [_id(number % 2, ids[number], NOW) for number in range(5)]
    await owner.commit(changes)
    left = []
    for expected in (False, False, True):
        trimmed = await owner.store.trim(operations_through=0, now=NOW, limit=2)
        expect(trimmed, expected, "whether none is left")
        seen = [await owner.store.seen(number, ids, NOW - 1) for number in (0, 1)]
        left.append(sum(map(len, seen)))
    expect(left, [3, 1, 0], "ids that are left after each portion")
    await owner.store.close()


async def check_operations_are_logged(place: StorePlace) -> None:
    owner = await owner_of(place)
    for operation in (SEND, 0, COMPLETE, SEND):
        changes = ChangeSet()
        if operation:
            changes.log.actors.append((5, b"link 5"))
            changes.log.add(operation, 5, 77, 100, NOW, NOW)
        await owner.commit(changes, NOW + 1)
    owner = await owner.reopened()
    blobs = await owner.store.operations(0, 10)
    expect([batch for batch, _ in blobs], [1, 3, 4], "a blob per commit that did any")
    decoded = decode_operations(blobs[1][1])
    expect(decoded.actors, {5: "link 5"}, "who did it")
    expect([run.operation for run in decoded.runs], [COMPLETE], "what was done")
    expect(decoded.sealed_at, NOW + 1, "when it was done")
    expect(await owner.store.operations(1, 1), blobs[1:2], "after a number, limited")
    await owner.store.trim(operations_through=3, now=0)
    expect(await owner.store.operations(0, 10), blobs[2:], "old blobs are forgotten")
    await owner.store.close()


CHECKS = (
    check_outbox_is_a_queue,
    check_outbox_has_lanes,
    check_a_range_from_zero_grows,
    check_ranges_add_up,
    check_ranges_are_of_one_source,
    check_ids_are_remembered_for_their_time,
    check_ids_are_trimmed,
    check_ids_are_trimmed_in_portions,
    check_operations_are_logged,
)
