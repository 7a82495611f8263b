"""Message sessions: found by id, in order, whatever lies between their messages."""

from twinbus.broker.changes import ChangeSet
from twinbus.broker.message import DEFERRED, SCHEDULED, Annex, Message
from twinbus.store.base import Store
from twinbus.store.checks.expectation import expect
from twinbus.store.checks.owner import (
    NO_LIMIT,
    NOW,
    Owner,
    all_values,
    message,
    owner_of,
    row_ids,
)
from twinbus.store.checks.places import StorePlace

# Ids that a comparison of the wrong kind would mix up: by case, by number, by
# length, by what is behind a zero; the last two order differently in UTF-16.
_IDS = ("", "0", "10", "9", "A", "a", "a\0", "a\0b", "a ", "\uff5e", "\U0001f600")
_FRAGMENTS = (0, 1, 32767, 32768, 65535)


async def _with_sessions(place: StorePlace) -> Owner:
    """In each of some fragments three messages of each id, taking turns, between
    others that have no session."""
    owner = await owner_of(place)
    changes = ChangeSet()
    for number in _FRAGMENTS:
        sequence = 0
        for _ in range(3):
            for session_id in (*_IDS, None):
                sequence += 1
                changes.active_added.append(
                    message(number, sequence, raw=bytes(100), session_id=session_id)
                )
    await owner.commit(changes)
    return owner


def _sequences(session_id: str) -> list[int]:
    """Those of a session in `_with_sessions`."""
    first = _IDS.index(session_id) + 1
    step = len(_IDS) + 1
    return [first, first + step, first + 2 * step]


async def check_sessions_are_read_in_order(place: StorePlace) -> None:
    owner = await _with_sessions(place)
    owner = await owner.reopened()
    for number in _FRAGMENTS:
        for session_id in _IDS:
            found = await owner.store.read_session(number, session_id, 0, 9, NO_LIMIT)
            expected = [message(number, i).row_id for i in _sequences(session_id)]
            expect(row_ids(found), expected, f"{session_id!r} of {number}, in order")
            ids = {m.session_id for m in found}
            expect(ids, {session_id}, "a message knows its session")
    for number, session_id in ((1, "b"), (1, "aa"), (2, "a")):
        found = await owner.store.read_session(number, session_id, 0, 9, NO_LIMIT)
        expect(found, [], f"{session_id!r} of {number} has no messages")
    await owner.store.close()


async def check_reading_a_session_is_limited(place: StorePlace) -> None:
    owner = await _with_sessions(place)
    first, second, third = _sequences("a")
    for after, limit, limit_bytes, expected in (
        (0, 2, NO_LIMIT, [first, second]),
        (first - 1, 1, NO_LIMIT, [first]),
        (first, 9, NO_LIMIT, [second, third]),
        (third, 9, NO_LIMIT, []),
        (0, 9, 200, [first, second]),
        (0, 9, 1, [first]),
        (0, 0, NO_LIMIT, []),
    ):
        rule = f"after {after}, {limit} messages, {limit_bytes} bytes"
        wanted = [message(1, i).row_id for i in expected]
        found = await owner.store.read_session(1, "a", after, limit, limit_bytes)
        expect(row_ids(found), wanted, f"read_session {rule}")
        found = await owner.store.browse_session(1, "a", after + 1, limit, limit_bytes)
        expect(row_ids(found), wanted, f"browse_session {rule}")
    await owner.store.close()


def _of_every_state() -> tuple[list[Message], list[Message], list[Message]]:
    annex = Annex(dead_letter_reason="r", forwarded_count=3)
    active = [
        message(1, 1, session_id="s"),
        message(1, 4, session_id="s", annex=annex, ttl_ms=5, delivery_count=2),
        message(1, 7, session_id="s", ttl_ms=90_000),
        message(1, 10, session_id="t"),
    ]
    deferred = [
        message(1, 2, session_id="s", state=DEFERRED, annex=annex),
        message(1, 5, session_id="s", state=DEFERRED),
        message(1, 11, session_id="t", state=DEFERRED),
    ]
    later = [
        message(1, 3, session_id="s", state=SCHEDULED, scheduled_at=NOW),
        message(1, 6, session_id="s", state=SCHEDULED, scheduled_at=NOW, annex=annex),
        message(1, 12, session_id="t", state=SCHEDULED, scheduled_at=NOW),
    ]
    return active, deferred, later


async def check_browsing_a_session_shows_every_state(place: StorePlace) -> None:
    owner = await owner_of(place)
    active, deferred, later = _of_every_state()
    changes = ChangeSet()
    changes.active_added += active
    changes.deferred_added += deferred
    changes.scheduled_added += later
    await owner.commit(changes)
    owner = await owner.reopened()
    every = active + deferred + later
    expected = all_values([m for m in every if m.session_id == "s"])
    found = await owner.store.browse_session(1, "s", 0, 99, NO_LIMIT)
    expect(all_values(found), expected, "a session's messages of every state")
    expect(row_ids(found), [m[0] for m in expected], "in order")
    found = await owner.store.browse_session(1, "s", 3, 3, NO_LIMIT)
    expect(all_values(found), expected[2:5], "from a number on, within a limit")
    found = await owner.store.read_deferred(row_ids(deferred))
    expect(all_values(found), all_values(deferred), "deferred ones know their session")
    found = await owner.store.due(NOW, 99)
    expect(all_values(found), all_values(later), "scheduled ones know their session")
    await owner.store.close()


async def _all_active(store: Store, number: int, limit: int) -> list[str]:
    """The ids of sessions, in portions."""
    found: list[str] = []
    while True:
        after = found[-1] if found else None
        portion = await store.active_sessions(number, after, limit)
        found += portion
        if len(portion) < limit:
            return found


async def check_sessions_are_listed_in_portions(place: StorePlace) -> None:
    owner = await _with_sessions(place)
    for number in _FRAGMENTS:
        order = await owner.store.active_sessions(number, None, 99)
        expect(sorted(order), sorted(_IDS), f"each session of {number}, once")
        for limit in (1, 2, 5):
            found = await _all_active(owner.store, number, limit)
            expect(found, order, f"in the same order, {limit} at a time")
    expect(await owner.store.active_sessions(2, None, 9), [], "none in 2")
    expect(await owner.store.active_sessions(1, None, 0), [], "none is asked for")
    await owner.store.close()


async def check_a_session_behind_one_that_is_gone(place: StorePlace) -> None:
    """Going on needs the id alone, not the session."""
    owner = await _with_sessions(place)
    order = await owner.store.active_sessions(1, None, 99)
    gone = order[3]
    changes = ChangeSet()
    changes.active_removed += [message(1, i).row_id for i in _sequences(gone)]
    await owner.commit(changes)
    found = await owner.store.active_sessions(1, gone, 99)
    expect(found, order[4:], "what is behind it")
    found = await owner.store.active_sessions(1, None, 99)
    expect(found, [i for i in order if i != gone], "a session ends with its messages")
    await owner.store.close()


async def check_deferred_and_scheduled_are_not_active(place: StorePlace) -> None:
    owner = await owner_of(place)
    moving = message(1, 1, session_id="moving")
    changes = ChangeSet()
    changes.active_added += [moving, message(1, 4, session_id="stays")]
    changes.deferred_added.append(message(1, 2, session_id="d", state=DEFERRED))
    changes.scheduled_added.append(
        message(1, 3, session_id="s", state=SCHEDULED, scheduled_at=NOW)
    )
    await owner.commit(changes)
    found = await owner.store.active_sessions(1, None, 9)
    expect(found, ["moving", "stays"], "sessions with active messages")
    changes = ChangeSet()
    changes.active_removed.append(moving.row_id)
    changes.deferred_added.append(moving)
    await owner.commit(changes)
    found = await owner.store.active_sessions(1, None, 9)
    expect(found, ["stays"], "a deferred message is not active")
    expect(await owner.store.read_session(1, "moving", 0, 9, NO_LIMIT), [], "nor read")
    kept = await owner.store.browse_session(1, "moving", 0, 9, NO_LIMIT)
    expect([m.state for m in kept], [DEFERRED], "but it is there")
    await owner.store.close()


CHECKS = (
    check_sessions_are_read_in_order,
    check_reading_a_session_is_limited,
    check_browsing_a_session_shows_every_state,
    check_sessions_are_listed_in_portions,
    check_a_session_behind_one_that_is_gone,
    check_deferred_and_scheduled_are_not_active,
)
