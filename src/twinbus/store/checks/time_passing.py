"""What time brings: schedules that are due, messages that outlived theirs."""

from twinbus.broker.changes import ChangeSet
from twinbus.broker.message import SCHEDULED, Message
from twinbus.store.base import PORTION_BYTES, ExpiryCursor, Store
from twinbus.store.checks.expectation import expect
from twinbus.store.checks.owner import NOW, message, owner_of, row_ids
from twinbus.store.checks.places import StorePlace

# A minute that begins at a multiple of the buckets' length, whatever up to that.
_HOUR_MS = 3_600_000
_START = NOW // _HOUR_MS * _HOUR_MS


def _scheduled(number: int, sequence: int, at: int, raw: bytes = b"raw") -> Message:
    return message(number, sequence, state=SCHEDULED, scheduled_at=at, raw=raw)


def _expiring(number: int, sequence: int, at: int, raw: bytes = b"raw") -> Message:
    return message(
        number, sequence, enqueued_at=_START - 1, ttl_ms=at - _START + 1, raw=raw
    )


async def check_due_messages_come_earliest_first(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.scheduled_added += [
        _scheduled(9, 1, NOW + 30),
        _scheduled(1, 1, NOW + 20),
        _scheduled(5, 2, NOW + 10),
        _scheduled(5, 1, NOW + 10),
    ]
    await owner.commit(changes)
    owner = await owner.reopened()
    expect(owner.opened.next_scheduled_at, NOW + 10, "the earliest, when opened")
    expect(await owner.store.next_scheduled_at(), NOW + 10, "the earliest")
    expect(await owner.store.due(NOW + 9, 10), [], "nothing before its time")
    order = [message(n, s).row_id for n, s in ((5, 1), (5, 2), (1, 1), (9, 1))]
    found = await owner.store.due(NOW + 20, 10)
    expect(row_ids(found), order[:3], "due at its time, earliest first")
    found = await owner.store.due(NOW + 99, 2)
    expect(row_ids(found), order[:2], "no more than asked for")
    changes = ChangeSet()
    changes.scheduled_removed += order
    await owner.commit(changes)
    expect(await owner.store.next_scheduled_at(), 0, "nothing is scheduled any more")
    expect(await owner.store.due(NOW + 99, 10), [], "nothing is due any more")
    await owner.store.close()


async def check_due_comes_in_portions(place: StorePlace) -> None:
    owner = await owner_of(place)
    half = bytes(PORTION_BYTES // 2)
    changes = ChangeSet()
    changes.scheduled_added += [_scheduled(1, i, NOW, half) for i in range(1, 5)]
    changes.active_added += [_expiring(2, i, _START, half) for i in range(1, 5)]
    await owner.commit(changes)
    expect(len(await owner.store.due(NOW, 10)), 2, "due, a portion of bytes")
    found, cursor = await owner.store.expired(_START + _HOUR_MS, ExpiryCursor(), 10)
    expect(len(found), 2, "expired, a portion of bytes")
    found, _ = await owner.store.expired(_START + _HOUR_MS, cursor, 10)
    expect(len(found), 2, "expired, the next portion")
    await owner.store.close()


async def _pass(store: Store, now: int, limit: int) -> list[int]:
    """One pass over the expired, to its end."""
    found: list[int] = []
    cursor = ExpiryCursor()
    while True:
        messages, cursor = await store.expired(now, cursor, limit)
        if not messages:
            expect(cursor, ExpiryCursor(), "a pass ends at the beginning")
            return found
        found += row_ids(messages)


async def check_expired_messages_are_found_once_a_pass(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    expiring = [
        _expiring(number, sequence, _START + _HOUR_MS * hour)
        for hour in range(3)
        for sequence in (1 + hour, 11 + hour, 21 + hour)
        for number in (0, 40000)
    ]
    changes.active_added += expiring
    changes.active_added += [message(0, 100 + i) for i in range(5)]
    await owner.commit(changes)
    now = _START + 2 * _HOUR_MS
    expected = sorted(m.row_id for m in expiring if m.expires_at < now)
    for limit in (1, 5, 12, 100):
        found = await _pass(owner.store, now, limit)
        expect(sorted(found), expected, f"a pass in portions of {limit}")
    expect(await _pass(owner.store, _START - 1, 10), [], "nothing before its time")
    await owner.store.close()


async def check_only_expired_messages_are_found(place: StorePlace) -> None:
    """A bucket may keep an expired message back, but not for hours, and it never
    shows one that has not expired."""
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.active_added += [
        _expiring(0, i + 1, _START + i * 7_001) for i in range(500)
    ]
    await owner.commit(changes)
    for now in range(_START, _START + _HOUR_MS, 59_999):
        messages, _ = await owner.store.expired(now, ExpiryCursor(), 1000)
        early = [m.row_id for m in messages if m.expires_at > now]
        expect(early, [], "nothing that has not expired")
    found = await _pass(owner.store, _START + 2 * _HOUR_MS, 100)
    expect(len(found), 500, "all of them in the end")
    await owner.store.close()


async def check_removed_messages_do_not_expire(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.active_added += [_expiring(1, 1, _START), _expiring(1, 2, _START)]
    await owner.commit(changes)
    changes = ChangeSet()
    changes.active_removed.append(message(1, 1).row_id)
    await owner.commit(changes)
    found = await _pass(owner.store, _START + _HOUR_MS, 10)
    expect(found, [message(1, 2).row_id], "what is gone does not expire")
    await owner.store.close()


CHECKS = (
    check_due_messages_come_earliest_first,
    check_due_comes_in_portions,
    check_expired_messages_are_found_once_a_pass,
    check_only_expired_messages_are_found,
    check_removed_messages_do_not_expire,
)
