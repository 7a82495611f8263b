"""Ranges of active messages: outlines of them, and single ones by their numbers."""

from twinbus.broker.changes import ChangeSet, SharedBody
from twinbus.broker.message import DEFERRED, SCHEDULED, Annex
from twinbus.broker.outline import Outlines
from twinbus.broker.row_id import SEQUENCE_MASK, sequence_of
from twinbus.store.checks.expectation import expect
from twinbus.store.checks.owner import (
    NOW,
    Owner,
    all_values,
    message,
    owner_of,
)
from twinbus.store.checks.places import StorePlace

_TOPIC = 9
_EVERYTHING = 100


def _numbers(outlines: Outlines) -> list[int]:
    return [sequence_of(row_id) for row_id in outlines.row_ids]


async def _filled(place: StorePlace) -> Owner:
    """Fragment 1 has active messages 1 to 5 and 8, others have other states; its
    neighbours have messages with the same numbers."""
    owner = await owner_of(place)
    changes = ChangeSet()
    for number in (0, 1, 2):
        changes.active_added += [
            message(number, i, raw=b"r" * i, enqueued_at=NOW + i)
            for i in (1, 2, 3, 4, 5, 8)
        ]
    changes.deferred_added.append(message(1, 6, state=DEFERRED))
    changes.scheduled_added.append(message(1, 7, state=SCHEDULED, scheduled_at=NOW + 9))
    await owner.commit(changes)
    return owner


async def check_outlines_are_those_of_the_range(place: StorePlace) -> None:
    owner = await _filled(place)
    found = await owner.store.outlines(1, 2, 8, _EVERYTHING)
    expect(_numbers(found), [2, 3, 4, 5, 8], "active ones, both ends included")
    expect(found.enqueued_at, [NOW + i for i in (2, 3, 4, 5, 8)], "enqueued times")
    expect(found.sizes, [2, 3, 4, 5, 8], "sizes of their bytes")
    expect(found.body_ids, [0] * 5, "their bytes are their own")
    found = await owner.store.outlines(1, 0, SEQUENCE_MASK, _EVERYTHING)
    expect(_numbers(found), [1, 2, 3, 4, 5, 8], "all of a fragment, and no other's")
    await owner.store.close()


async def check_outlines_have_a_limit(place: StorePlace) -> None:
    owner = await _filled(place)
    found = await owner.store.outlines(1, 2, 8, 3)
    expect(_numbers(found), [2, 3, 4], "the first ones")
    found = await owner.store.outlines(1, 5, 8, 1)
    expect(_numbers(found), [5], "one")
    await owner.store.close()


async def check_empty_ranges_have_no_outlines(place: StorePlace) -> None:
    owner = await _filled(place)
    for number, first, last in ((1, 6, 7), (1, 9, SEQUENCE_MASK), (1, 5, 4), (3, 0, 9)):
        found = await owner.store.outlines(number, first, last, _EVERYTHING)
        expect(len(found), 0, f"nothing from {first} through {last}")
    for number in (0, 1, 65_535):
        found = await owner.store.outlines(number, 0, -1, _EVERYTHING)
        expect(len(found), 0, "a range may end before the first number there is")
    await owner.store.close()


async def check_outlines_follow_commits(place: StorePlace) -> None:
    owner = await _filled(place)
    changes = ChangeSet()
    changes.active_removed += [message(1, i).row_id for i in (1, 3)]
    changes.active_added.append(message(1, 9))
    await owner.commit(changes)
    owner = await owner.reopened()
    found = await owner.store.outlines(1, 0, 9, _EVERYTHING)
    expect(_numbers(found), [2, 4, 5, 8, 9], "what is there now")
    await owner.store.close()


async def check_outlines_of_shared_bodies(place: StorePlace) -> None:
    """The size is that of the body, which is named if it is shared."""
    owner = await owner_of(place)
    body_id = message(_TOPIC, 4).row_id
    changes = ChangeSet()
    changes.bodies_added.append(SharedBody(body_id=body_id, raw=b"shared by two"))
    for number in (1, 2):
        copy = message(number, 1, raw=b"shared by two", body_id=body_id, is_shared=True)
        changes.active_added.append(copy)
        changes.bodies_taken.append(body_id)
    changes.active_added.append(message(1, 2, raw=b"own", body_id=body_id))
    await owner.commit(changes)
    found = await owner.store.outlines(1, 0, 9, _EVERYTHING)
    expect(found.sizes, [13, 3], "sizes of a shared body and of own bytes")
    expect(found.body_ids, [body_id, 0], "what is to be released with the message")
    await owner.store.close()


async def check_active_messages_are_found_by_number(place: StorePlace) -> None:
    owner = await _filled(place)
    changes = ChangeSet()
    marked = message(
        1, 9, annex=Annex(dead_letter_reason="why"), ttl_ms=5, delivery_count=2
    )
    changes.active_added.append(marked)
    await owner.commit(changes)
    numbers = (9, 2, 6, 7, 77)
    names = [message(1, i).row_id for i in numbers]
    found = await owner.store.read_numbered(names)
    expected = [message(1, 2, raw=b"rr", enqueued_at=NOW + 2), marked]
    expect(all_values(found), all_values(expected), "active ones, whole")
    expect(await owner.store.read_numbered([]), [], "none if none is named")
    found = await owner.store.read_numbered([names[1], names[1]])
    expect(len(found), 1, "one that is named twice is there once")
    await owner.store.close()


CHECKS = (
    check_outlines_are_those_of_the_range,
    check_outlines_have_a_limit,
    check_empty_ranges_have_no_outlines,
    check_outlines_follow_commits,
    check_outlines_of_shared_bodies,
    check_active_messages_are_found_by_number,
)
