"""Reading: in order, within limits, of the asked fragment and state alone."""

from twinbus.broker.changes import ChangeSet
from twinbus.broker.message import DEFERRED, SCHEDULED
from twinbus.store.checks.expectation import expect
from twinbus.store.checks.owner import (
    NO_LIMIT,
    NOW,
    Owner,
    message,
    owner_of,
    row_ids,
)
from twinbus.store.checks.places import StorePlace

# Fragment 0 has the lowest row ids there are, fragment 32768 the first positive.
_FRAGMENTS = (0, 1, 32767, 32768, 65535)


async def _filled(place: StorePlace) -> Owner:
    """Ten messages of 100 bytes, every second number, in each of some fragments."""
    owner = await owner_of(place)
    changes = ChangeSet()
    for number in reversed(_FRAGMENTS):
        changes.active_added += [
            message(number, i, raw=bytes(100)) for i in range(2, 22, 2)
        ]
    await owner.commit(changes)
    return owner


async def check_active_messages_are_read_in_order(place: StorePlace) -> None:
    owner = await _filled(place)
    for number in _FRAGMENTS:
        found = await owner.store.read_active(number, 0, 100, NO_LIMIT)
        expected = [message(number, i).row_id for i in range(2, 22, 2)]
        expect(row_ids(found), expected, f"fragment {number} in order, alone")
    expect(await owner.store.read_active(2, 0, 9, NO_LIMIT), [], "an empty fragment")
    await owner.store.close()


async def check_reading_goes_on_after_a_number(place: StorePlace) -> None:
    owner = await _filled(place)
    for after, first in ((1, 2), (2, 4), (3, 4), (19, 20)):
        found = await owner.store.read_active(1, after, 1, NO_LIMIT)
        expected = [message(1, first).row_id]
        expect(row_ids(found), expected, f"the first message above {after}")
    expect(await owner.store.read_active(1, 20, 9, NO_LIMIT), [], "above the last")
    await owner.store.close()


async def check_reading_is_limited(place: StorePlace) -> None:
    owner = await _filled(place)
    for limit, limit_bytes, count in (
        (3, NO_LIMIT, 3),
        (10, 300, 3),
        (10, 301, 4),
        (2, 300, 2),
        (10, 1, 1),
        (0, NO_LIMIT, 0),
    ):
        found = await owner.store.read_active(1, 0, limit, limit_bytes)
        rule = f"read_active within {limit} messages and {limit_bytes} bytes"
        expect(len(found), count, rule)
        found = await owner.store.browse(1, 0, limit, limit_bytes)
        rule = f"browse within {limit} messages and {limit_bytes} bytes"
        expect(len(found), count, rule)
    await owner.store.close()


async def check_browse_shows_every_state(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.active_added += [message(1, 1), message(1, 4), message(2, 1)]
    changes.deferred_added += [
        message(1, 2, state=DEFERRED),
        message(0, 9, state=DEFERRED),
    ]
    changes.scheduled_added += [
        message(1, 3, state=SCHEDULED, scheduled_at=NOW),
        message(1, 5, state=SCHEDULED, scheduled_at=NOW),
    ]
    await owner.commit(changes)
    found = await owner.store.browse(1, 0, 100, NO_LIMIT)
    expected = [message(1, i).row_id for i in (1, 2, 3, 4, 5)]
    expect(row_ids(found), expected, "browse merges the states in order")
    states = [m.state for m in found]
    expect(states, [0, DEFERRED, SCHEDULED, 0, SCHEDULED], "browse tells the state")
    found = await owner.store.browse(1, 3, 2, NO_LIMIT)
    expect(row_ids(found), expected[2:4], "browse begins with the number it is given")
    await owner.store.close()


async def check_deferred_messages_are_browsed_alone(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    for number in (0, 1, 2):
        changes.active_added += [message(number, i) for i in (1, 3, 5)]
        changes.deferred_added += [
            message(number, i, state=DEFERRED, raw=bytes(100)) for i in (2, 4, 6)
        ]
    changes.scheduled_added.append(message(1, 7, state=SCHEDULED, scheduled_at=NOW))
    await owner.commit(changes)
    expected = [message(1, i).row_id for i in (2, 4, 6)]
    found = await owner.store.browse_deferred(1, 0, 100, NO_LIMIT)
    expect(row_ids(found), expected, "deferred ones of the fragment, in order")
    expect([m.state for m in found], [DEFERRED] * 3, "their state is told")
    found = await owner.store.browse_deferred(1, 4, 1, NO_LIMIT)
    expect(row_ids(found), expected[1:2], "it begins with the number it is given")
    found = await owner.store.browse_deferred(1, 0, 100, 101)
    expect(row_ids(found), expected[:2], "within a limit of bytes")
    found = await owner.store.browse_deferred(1, 7, 100, NO_LIMIT)
    expect(found, [], "none above the last")
    await owner.store.close()


async def check_messages_are_found_by_state(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.active_added.append(message(1, 1))
    changes.deferred_added.append(message(1, 2, state=DEFERRED))
    changes.scheduled_added.append(message(1, 3, state=SCHEDULED, scheduled_at=NOW))
    await owner.commit(changes)
    wanted = [message(1, i).row_id for i in (3, 2, 1, 4)]
    found = await owner.store.read_deferred(wanted)
    expect(row_ids(found), [message(1, 2).row_id], "deferred messages alone")
    found = await owner.store.read_scheduled(wanted)
    expect(row_ids(found), [message(1, 3).row_id], "scheduled messages alone")
    found = await owner.store.read_active(1, 0, 10, NO_LIMIT)
    expect(row_ids(found), [message(1, 1).row_id], "active messages alone")
    size = await owner.store.deferred_bytes(wanted)
    expect(size, message(1, 2).size_bytes(), "bytes of deferred messages alone")
    expect(await owner.store.deferred_bytes([]), 0, "bytes of none")
    expect(await owner.store.read_deferred([]), [], "none is asked for")
    many = await owner.store.read_deferred(
        [message(1, i).row_id for i in range(1, 4097)]
    )
    expect(len(many), 1, "thousands can be asked for")
    await owner.store.close()


CHECKS = (
    check_active_messages_are_read_in_order,
    check_reading_goes_on_after_a_number,
    check_reading_is_limited,
    check_browse_shows_every_state,
    check_deferred_messages_are_browsed_alone,
    check_messages_are_found_by_state,
)
