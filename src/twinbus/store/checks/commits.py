"""Commits: whole or not at all, every column as it was written."""

from twinbus.broker import settlement
from twinbus.broker.changes import ChangeSet, OutboxEntry
from twinbus.broker.fragment import DEAD_LETTER, Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.fragment_table import FragmentTable
from twinbus.broker.message import DEFERRED, SCHEDULED, Annex, Message
from twinbus.broker.schedule import schedule
from twinbus.limits import FRAGMENTS_PER_STORE
from twinbus.store.base import CommitFailed, Store
from twinbus.store.checks.expectation import expect, refused
from twinbus.store.checks.owner import (
    GENERATION,
    NO_LIMIT,
    NOW,
    Owner,
    all_values,
    message,
    owner_of,
    record,
    row_ids,
    values,
)
from twinbus.store.checks.places import StorePlace

FULL_ANNEX = Annex(
    dead_letter_reason="reason, \u00fcber",
    dead_letter_description="",
    dead_letter_source="a/queue",
    modified={"colour": b"\xa1\x03red", "": b"", "\u2713": bytes(300)},
    enqueued_sequence_number=(1 << 63) - 1,
    forwarded_count=4,
)
ANNEXES = (
    None,
    Annex(),
    Annex(dead_letter_reason="only a reason"),
    Annex(dead_letter_description="only a description"),
    Annex(modified={"only": b"modified"}),
    Annex(forwarded_count=1),
    FULL_ANNEX,
)
LAST_FRAGMENT = FRAGMENTS_PER_STORE - 1
LAST_SEQUENCE = (1 << 48) - 1


def _varied(state: int, scheduled_at: int) -> list[Message]:
    """Messages that between them have every value a column can have."""
    messages = [
        message(3, 10 + i, annex=annex, state=state, scheduled_at=scheduled_at)
        for i, annex in enumerate(ANNEXES)
    ]
    for number, sequence in ((0, 1), (0, LAST_SEQUENCE), (LAST_FRAGMENT, 1)):
        messages.append(
            message(number, sequence, state=state, scheduled_at=NOW + 1, raw=b"")
        )
    messages.append(
        message(
            LAST_FRAGMENT,
            LAST_SEQUENCE,
            raw=bytes(range(256)) * 4096,
            layout=(1 << 63) - 1,
            enqueued_at=1,
            ttl_ms=1 << 61,
            delivery_count=(1 << 31) - 1,
            state=state,
            scheduled_at=scheduled_at or 1 << 61,
            annex=FULL_ANNEX,
        )
    )
    return messages


async def _active(store: Store) -> list[Message]:
    found = []
    for number in (0, 3, LAST_FRAGMENT):
        found += await store.read_active(number, 0, 1000, NO_LIMIT)
    return found


async def check_active_messages_round_trip(place: StorePlace) -> None:
    owner = await owner_of(place)
    written = _varied(0, 0)
    changes = ChangeSet()
    changes.active_added += written
    await owner.commit(changes)
    expected = all_values(written)
    expect(all_values(await _active(owner.store)), expected, "active messages")
    owner = await owner.reopened()
    expect(all_values(await _active(owner.store)), expected, "active, reopened")
    await owner.store.close()


async def check_deferred_messages_round_trip(place: StorePlace) -> None:
    owner = await owner_of(place)
    written = _varied(DEFERRED, 0)
    changes = ChangeSet()
    changes.deferred_added += written
    await owner.commit(changes)
    owner = await owner.reopened()
    found = await owner.store.read_deferred(row_ids(written))
    expect(all_values(found), all_values(written), "deferred messages")
    await owner.store.close()


async def check_scheduled_messages_round_trip(place: StorePlace) -> None:
    owner = await owner_of(place)
    written = _varied(SCHEDULED, NOW + 5)
    changes = ChangeSet()
    changes.scheduled_added += written
    await owner.commit(changes)
    owner = await owner.reopened()
    found = await owner.store.read_scheduled(row_ids(written))
    expect(all_values(found), all_values(written), "scheduled messages")
    await owner.store.close()


async def check_changes_of_messages_are_kept(place: StorePlace) -> None:
    owner = await owner_of(place)
    active, deferred = message(1, 1, annex=FULL_ANNEX), message(1, 2, state=DEFERRED)
    untouched = message(1, 3)
    changes = ChangeSet()
    changes.active_added += [active, untouched]
    changes.deferred_added.append(deferred)
    await owner.commit(changes)
    active.delivery_count, active.annex = 3, None
    deferred.delivery_count, deferred.annex = 4, FULL_ANNEX
    changes = ChangeSet()
    changes.active_changed.append(active)
    changes.deferred_changed.append(deferred)
    await owner.commit(changes)
    found = await owner.store.read_active(1, 0, 10, NO_LIMIT)
    expect(all_values(found), all_values([active, untouched]), "changed, active")
    found = await owner.store.read_deferred([deferred.row_id])
    expect(all_values(found), all_values([deferred]), "changed, deferred")
    await owner.store.close()


async def check_a_store_keeps_copies(place: StorePlace) -> None:
    owner = await owner_of(place)
    original = message(1, 1)
    before = values(original)
    changes = ChangeSet()
    changes.active_added.append(original)
    await owner.commit(changes)
    original.delivery_count = 9
    (found,) = await owner.store.read_active(1, 0, 10, NO_LIMIT)
    expect(values(found), before, "a later change of the object is not stored")
    found.delivery_count = 9
    (again,) = await owner.store.read_active(1, 0, 10, NO_LIMIT)
    expect(values(again), before, "a change of what was read is not stored")
    await owner.store.close()


async def check_messages_are_removed(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.active_added += [message(2, i) for i in range(1, 101)]
    changes.deferred_added += [message(2, i, state=DEFERRED) for i in range(101, 104)]
    changes.scheduled_added += [
        message(2, i, state=SCHEDULED, scheduled_at=NOW) for i in range(104, 107)
    ]
    await owner.commit(changes)
    # In runs, alone, and out of order, as receivers settle.
    gone = [50, 51, 52, 10, 12, 90, 89, 88, 100, 1]
    changes = ChangeSet()
    changes.active_removed += [message(2, i).row_id for i in gone]
    changes.deferred_removed += [message(2, i).row_id for i in (103, 101)]
    changes.scheduled_removed += [message(2, i).row_id for i in (104, 105)]
    await owner.commit(changes)
    found = await owner.store.browse(2, 0, 1000, NO_LIMIT)
    left = [i for i in range(1, 101) if i not in gone] + [102, 106]
    expected = [message(2, i).row_id for i in left]
    expect(row_ids(found), expected, "exactly the named messages are removed")
    await owner.store.close()


async def check_messages_move_between_states(place: StorePlace) -> None:
    owner = await owner_of(place)
    moving = message(2, 1, annex=FULL_ANNEX)
    changes = ChangeSet()
    changes.active_added.append(moving)
    await owner.commit(changes)
    changes = ChangeSet()
    changes.active_removed.append(moving.row_id)
    moving.state = DEFERRED
    changes.deferred_added.append(moving)
    await owner.commit(changes)
    expect(await owner.store.read_active(2, 0, 9, NO_LIMIT), [], "it is not active")
    found = await owner.store.read_deferred([moving.row_id])
    expect(all_values(found), all_values([moving]), "it is deferred")
    await owner.store.close()


async def check_fragment_records_are_kept(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.records += [record(0), record(LAST_FRAGMENT), record(5)]
    await owner.commit(changes)
    changes = ChangeSet()
    changes.records.append(record(5, active_count=8))
    await owner.commit(changes)
    expected = [record(0), record(5, active_count=8), record(LAST_FRAGMENT)]
    expect(await owner.store.fragments(), expected, "records are replaced by number")
    owner = await owner.reopened()
    expect(owner.opened.fragments, expected, "an owner is told of all fragments")
    await owner.store.close()


async def check_failed_commit_leaves_nothing(place: StorePlace) -> None:
    owner = await owner_of(place)
    entry = OutboxEntry(entry_id=1, target="q", raw=b"", origin=b"")
    changes = ChangeSet()
    changes.active_added.append(message(1, 1))
    changes.records.append(record(1))
    changes.outbox_added.append(entry)
    await owner.commit(changes)
    conflicting = ChangeSet()
    conflicting.active_added.append(message(1, 2))
    conflicting.active_removed.append(message(1, 1).row_id)
    conflicting.scheduled_added.append(message(1, 3, state=SCHEDULED, scheduled_at=1))
    conflicting.records.append(record(1, active_count=2))
    conflicting.dropped.append(7)
    conflicting.outbox_added.append(entry)
    with refused(CommitFailed, "an outbox entry is added once"):
        await owner.commit(conflicting)
    twice = ChangeSet()
    twice.active_added += [message(1, 4), message(1, 1)]
    with refused(CommitFailed, "a row id is used once"):
        await owner.commit(twice)
    for _ in range(2):
        found = await owner.store.browse(1, 0, 10, NO_LIMIT)
        expect(row_ids(found), [message(1, 1).row_id], "messages are as before")
        expect(await owner.store.fragments(), [record(1)], "records are as before")
        expect(await owner.store.last_batch(), 1, "the number is as before")
        owner = await owner.reopened()
        expect(owner.opened.purging, [], "dropped fragments are as before")
    await owner.commit(ChangeSet())
    await owner.store.close()


async def check_the_core_is_restored(place: StorePlace) -> None:
    """What a fragment did is what an owner after it finds."""
    owner = await owner_of(place)
    table = FragmentTable(owner.opened.epoch, owner.opened.fragments)
    table.admit(GENERATION, FragmentSettings(path="orders"))
    changes = ChangeSet()
    fragment = table.create(GENERATION, 0, changes)
    for i in range(10):
        fragment.enqueue(Message(b"m%d" % i, 1, 0, 0), 1, NOW + i, changes)
    schedule(fragment, Message(b"later", 1, 0, NOW + 99), 1, NOW, changes)
    await owner.commit(changes)
    changes.publish()
    changes = ChangeSet()
    for taken in fragment.take(3, NOW, changes):
        fragment.forget(taken, changes)
    (rejected,) = fragment.take(1, NOW, changes)
    fragment.move_to_dead_letters(rejected, "bad", None, NOW, changes)
    await owner.commit(changes)
    await _expect_restored(await owner.reopened(), table, fragment.number)


async def check_messages_move_with_bytes_of_the_store(place: StorePlace) -> None:
    """What was locked for long has its bytes in the store alone."""
    owner = await owner_of(place)
    table = FragmentTable(owner.opened.epoch, owner.opened.fragments)
    table.admit(GENERATION, FragmentSettings(path="orders"))
    table.bodies.limit_bytes = 0
    changes = ChangeSet()
    fragment = table.create(GENERATION, 0, changes)
    for i in range(4):
        fragment.enqueue(Message(b"m%d" % i, 1, 60_000, 0), 1, NOW + i, changes)
    await owner.commit(changes)
    changes.publish()
    changes = ChangeSet()
    locks = fragment.lock(4, 1, NOW, bytes(20), changes)
    fragment.delivered(locks)
    expect([lock.message.raw for lock in locks], [b""] * 4, "nothing is kept")
    expect(table.bodies.held_bytes, 0, "and nothing is counted")
    first, second, third, _ = locks
    settlement.dead_letter(fragment, first, "bad", None, None, 1, NOW, changes)
    settlement.defer(fragment, second, {"a": b"\x41"}, 1, NOW, changes)
    settlement.complete(fragment, third, 1, NOW, changes)
    await owner.commit(changes)
    changes.publish()
    (left,) = await owner.store.read_active(fragment.number, 0, 10, NO_LIMIT)
    expect(left.raw, b"m3", "what is locked is as before")
    dead_letters = table.sub_queue_of(fragment, DEAD_LETTER)
    (dead,) = await owner.store.read_active(dead_letters.number, 0, 10, NO_LIMIT)
    expect(dead.raw, b"m0", "a dead letter has the bytes of its source")
    (put_by,) = await owner.store.read_deferred([second.message.row_id])
    expect(put_by.raw, b"m1", "and so has what was deferred")
    annex = Annex(modified={"a": b"\x41"})
    expect(put_by.annex, annex, "with what the settlement set")
    expect(fragment.record().size_bytes, 4, "sizes are right")
    expect(dead_letters.record().size_bytes, 2, "there, too")
    await _check_deferred_moves(owner, table, fragment, put_by)
    await owner.store.close()


async def _check_deferred_moves(
    owner: Owner, table: FragmentTable, fragment: Fragment, put_by: Message
) -> None:
    changes = ChangeSet()
    lock = fragment.lock_deferred(put_by, NOW, bytes(5))
    fragment.delivered([lock])
    settlement.dead_letter(fragment, lock, "bad", None, None, 1, NOW, changes)
    await owner.commit(changes)
    dead_letters = table.sub_queue_of(fragment, DEAD_LETTER)
    found = await owner.store.read_active(dead_letters.number, 0, 10, NO_LIMIT)
    expect([m.raw for m in found], [b"m0", b"m1"], "a deferred message moves likewise")
    lost = ChangeSet()
    missing = message(1, 1)
    missing.copied_from = message(1, 99).row_id
    lost.active_moved.append(missing)
    with refused(CommitFailed, "bytes that are nowhere cannot be copied"):
        await owner.commit(lost)


async def _expect_restored(owner: Owner, before: FragmentTable, number: int) -> None:
    fragment = before.by_number(number)
    assert fragment is not None
    dead_letters = before.sub_queue_of(fragment, DEAD_LETTER)
    expected = [fragment.record(), dead_letters.record()]
    expect(owner.opened.fragments, expected, "counters are those of the core")
    found = await owner.store.read_active(number, 0, 100, NO_LIMIT)
    bodies = [m.raw for m in found]
    expect(bodies, [b"m%d" % i for i in range(4, 10)], "settled messages are gone")
    (dead,) = await owner.store.read_active(dead_letters.number, 0, 100, NO_LIMIT)
    expect(dead.raw, b"m3", "the dead letter is in its queue")
    annex = Annex(
        dead_letter_reason="bad",
        dead_letter_source="orders",
        enqueued_sequence_number=4,
    )
    expect(dead.annex, annex, "with what the bus wrote to it")
    expect(owner.opened.next_scheduled_at, NOW + 99, "the schedule is known")
    await owner.store.close()


CHECKS = (
    check_active_messages_round_trip,
    check_deferred_messages_round_trip,
    check_scheduled_messages_round_trip,
    check_changes_of_messages_are_kept,
    check_a_store_keeps_copies,
    check_messages_are_removed,
    check_messages_move_between_states,
    check_fragment_records_are_kept,
    check_failed_commit_leaves_nothing,
    check_the_core_is_restored,
    check_messages_move_with_bytes_of_the_store,
)
