"""Dropped fragments: their rows go in portions, then their number is free."""

from twinbus.broker.changes import ChangeSet, LedgerId, SessionState, StoredRule
from twinbus.broker.message import DEFERRED, SCHEDULED
from twinbus.store.checks.expectation import expect
from twinbus.store.checks.owner import (
    NO_LIMIT,
    NOW,
    Owner,
    message,
    owner_of,
    record,
    row_ids,
)
from twinbus.store.checks.places import StorePlace

_ROWS = 18
"""Of the fragment that `_with_dropped` drops."""


def _rule(number: int, name: str) -> StoredRule:
    return StoredRule(
        fragment_number=number, name=name, definition="{}", created_at=NOW
    )


async def _with_dropped(place: StorePlace) -> Owner:
    """Fragment 4 is dropped and has rows of every kind; 3 and 5 live."""
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.records += [record(3), record(4), record(5)]
    for number in (3, 4, 5):
        changes.active_added += [message(number, i, ttl_ms=1) for i in (1, 2, 3)]
        changes.deferred_added += [
            message(number, i, state=DEFERRED) for i in (4, 5, 6)
        ]
        changes.scheduled_added += [
            message(number, i, state=SCHEDULED, scheduled_at=NOW) for i in (7, 8, 9)
        ]
        changes.ledger_ids += [
            LedgerId(fragment_number=number, unique_id=bytes([i]), forget_at=NOW + 1)
            for i in (1, 2, 3)
        ]
        changes.session_states += [
            SessionState(
                fragment_number=number, session_id=i, state=b"", updated_at=NOW
            )
            for i in "abc"
        ]
        changes.rules_put += [_rule(number, i) for i in "abc"]
    await owner.commit(changes)
    changes = ChangeSet()
    changes.dropped.append(4)
    await owner.commit(changes)
    return owner


async def check_dropped_fragment_is_remembered(place: StorePlace) -> None:
    owner = await _with_dropped(place)
    expect(await owner.store.fragments(), [record(3), record(5)], "its record is gone")
    owner = await owner.reopened()
    expect(owner.opened.fragments, [record(3), record(5)], "gone, reopened")
    expect(owner.opened.purging, [4], "what must still be purged")
    await owner.store.close()


async def check_purge_goes_in_portions(place: StorePlace) -> None:
    owner = await _with_dropped(place)
    portions = 0
    while not await owner.store.purge(4, 5):
        portions += 1
        left = await owner.store.browse(4, 0, 100, NO_LIMIT)
        expect(len(left), max(0, 9 - 5 * portions), "rows after so many portions")
    expect(portions, _ROWS // 5, "portions before the last")
    owner = await owner.reopened()
    expect(owner.opened.purging, [], "nothing is left to purge")
    await owner.store.close()


async def check_purge_spares_other_fragments(place: StorePlace) -> None:
    owner = await _with_dropped(place)
    expect(await owner.store.purge(4, 1000), True, "one portion is enough")
    expect(await owner.store.browse(4, 0, 100, NO_LIMIT), [], "its messages are gone")
    expect(await owner.store.seen(4, [b"\x01"], NOW), set(), "its ids are gone")
    for number in (3, 5):
        found = await owner.store.browse(number, 0, 100, NO_LIMIT)
        expected = [message(number, i).row_id for i in range(1, 10)]
        expect(row_ids(found), expected, "messages of its neighbours stay")
        seen = await owner.store.seen(number, [b"\x01"], NOW)
        expect(seen, {b"\x01"}, "their ids stay")
    expect(await owner.store.sessions(4, None, 9), [], "its session states are gone")
    kept = await owner.store.sessions(5, None, 9)
    expect(kept, ["a", "b", "c"], "session states of its neighbours stay")
    left = [_rule(number, i) for number in (3, 5) for i in "abc"]
    expect(await owner.store.rules(), left, "only its rules are gone")
    due = await owner.store.due(NOW, 100)
    expect(len(due), 6, "schedules of its neighbours stay")
    await owner.store.close()


async def check_purged_number_is_free(place: StorePlace) -> None:
    owner = await _with_dropped(place)
    while not await owner.store.purge(4, 5):
        pass
    changes = ChangeSet()
    changes.records.append(record(4))
    changes.active_added.append(message(4, 1))
    await owner.commit(changes)
    owner = await owner.reopened()
    expect(owner.opened.purging, [], "a number in use is not being purged")
    expect(record(4) in owner.opened.fragments, True, "a number is used again")
    found = await owner.store.browse(4, 0, 100, NO_LIMIT)
    expect(row_ids(found), [message(4, 1).row_id], "and its row ids")
    await owner.store.close()


async def check_fragment_dropped_by_the_commit_that_touched_it(
    place: StorePlace,
) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.records.append(record(6))
    changes.active_added.append(message(6, 1))
    changes.dropped.append(6)
    await owner.commit(changes)
    owner = await owner.reopened()
    expect(owner.opened.fragments, [], "dropping comes last")
    expect(owner.opened.purging, [6], "and leaves rows to purge")
    await owner.store.close()


CHECKS = (
    check_dropped_fragment_is_remembered,
    check_purge_goes_in_portions,
    check_purge_spares_other_fragments,
    check_purged_number_is_free,
    check_fragment_dropped_by_the_commit_that_touched_it,
)
