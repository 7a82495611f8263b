"""Shared bodies: stored once, read with every row that uses them, gone with the last.

That a body is gone shows in its id: it can be added again.
"""

from collections.abc import Sequence

from twinbus.broker.changes import ChangeSet, SharedBody
from twinbus.broker.message import DEFERRED, SCHEDULED, Message
from twinbus.store.base import CommitFailed, ExpiryCursor
from twinbus.store.checks.expectation import expect, refused
from twinbus.store.checks.owner import (
    NO_LIMIT,
    NOW,
    Owner,
    all_values,
    message,
    owner_of,
    record,
    row_ids,
)
from twinbus.store.checks.places import StorePlace

_TOPIC = 3
_RAW = bytes(range(256)) * 5


def _body_id(sequence: int) -> int:
    return message(_TOPIC, sequence).row_id


def _copy(
    number: int,
    sequence: int,
    *,
    body: int = 1,
    state: int = 0,
    scheduled_at: int = 0,
    ttl_ms: int = 0,
    session_id: str | None = None,
) -> Message:
    """A subscription's copy of the topic's message `body`."""
    return message(
        number,
        sequence,
        raw=_RAW,
        state=state,
        scheduled_at=scheduled_at,
        ttl_ms=ttl_ms,
        session_id=session_id,
        body_id=_body_id(body),
        is_shared=True,
    )


async def _send(owner: Owner, copies: Sequence[Message], *bodies: int) -> None:
    """Add copies, as active messages, and the bodies named."""
    changes = ChangeSet()
    changes.bodies_added += [SharedBody(body_id=_body_id(i), raw=_RAW) for i in bodies]
    changes.active_added += copies
    changes.bodies_taken += [copy.body_id for copy in copies]
    await owner.commit(changes)


async def _settle(owner: Owner, copies: Sequence[Message]) -> None:
    changes = ChangeSet()
    changes.active_removed += row_ids(copies)
    changes.bodies_released += [copy.body_id for copy in copies]
    await owner.commit(changes)


async def _expect_bodies(
    owner: Owner, kept: Sequence[int], gone: Sequence[int]
) -> None:
    for sequence in kept:
        with refused(CommitFailed, f"body {sequence} is still kept"):
            await _send(owner, [], sequence)
    for sequence in gone:
        # Added for a moment: nobody takes it.
        await _send(owner, [], sequence)


async def check_shared_messages_are_read_with_their_bytes(place: StorePlace) -> None:
    owner = await owner_of(place)
    active = [
        _copy(4, 1),
        _copy(4, 2, session_id="s", ttl_ms=1),
        _copy(5, 1, ttl_ms=1),
        message(4, 3, body_id=_body_id(2), raw=b"own bytes, changed by an action"),
        message(4, 4, body_id=_body_id(2), raw=b"", session_id="s"),
    ]
    deferred = [
        _copy(4, 5, state=DEFERRED),
        _copy(4, 6, state=DEFERRED, session_id="s"),
    ]
    later = [
        _copy(4, 7, state=SCHEDULED, scheduled_at=NOW),
        _copy(4, 8, state=SCHEDULED, scheduled_at=NOW, session_id="s"),
    ]
    changes = ChangeSet()
    changes.bodies_added.append(SharedBody(body_id=_body_id(1), raw=_RAW))
    changes.active_added += active
    changes.deferred_added += deferred
    changes.scheduled_added += later
    changes.bodies_taken += [_body_id(1)] * 7
    await owner.commit(changes)
    owner = await owner.reopened()
    await _expect_read(owner, active, deferred, later)


async def _expect_read(
    owner: Owner,
    active: Sequence[Message],
    deferred: Sequence[Message],
    later: Sequence[Message],
) -> None:
    store = owner.store
    every = [*active, *deferred, *later]
    of_4 = [m for m in every if m.row_id != active[2].row_id]
    of_session = [m for m in every if m.session_id == "s"]
    expired, _ = await store.expired(NOW + 3_600_000, ExpiryCursor(), 9)
    active_of_4 = [m for m in of_4 if m.state == 0]
    active_of_session = [m for m in of_session if m.state == 0]
    ids = row_ids(every)
    for found, written, how in (
        (await store.read_active(4, 0, 9, NO_LIMIT), active_of_4, "read_active"),
        (await store.browse(4, 0, 9, NO_LIMIT), of_4, "browse"),
        (
            await store.read_session(4, "s", 0, 9, NO_LIMIT),
            active_of_session,
            "read_session",
        ),
        (
            await store.browse_session(4, "s", 0, 9, NO_LIMIT),
            of_session,
            "browse_session",
        ),
        (await store.read_deferred(ids), deferred, "read_deferred"),
        (await store.read_scheduled(ids), later, "read_scheduled"),
        (await store.due(NOW, 9), later, "due"),
        (expired, [m for m in active if m.ttl_ms], "expired"),
    ):
        expect(all_values(found), all_values(written), f"bytes with {how}")
    portion = await store.read_active(4, 0, 9, len(_RAW))
    expect(len(portion), 1, "shared bytes count for the limit")
    size = await store.deferred_bytes(ids)
    expect(size, sum(len(m.raw) for m in deferred), "shared bytes have a size")
    await store.close()


async def check_a_body_lives_as_long_as_it_is_used(place: StorePlace) -> None:
    owner = await owner_of(place)
    copies = [_copy(number, 1) for number in (4, 5, 6)]
    await _send(owner, copies, 1)
    await _settle(owner, copies[:1])
    await _expect_bodies(owner, kept=[1], gone=[])
    await _settle(owner, copies[1:2])
    (left,) = await owner.store.read_active(6, 0, 9, NO_LIMIT)
    expect(left.raw == _RAW, True, "the last one still has its bytes")
    owner = await owner.reopened()
    await _settle(owner, copies[2:])
    await _expect_bodies(owner, kept=[], gone=[1])
    await owner.store.close()


async def check_uses_of_a_commit_add_up(place: StorePlace) -> None:
    owner = await owner_of(place)
    first, second = _copy(4, 1), _copy(5, 1)
    await _send(owner, [first], 1)
    # Released by one and taken by another: a dead letter, say.
    changes = ChangeSet()
    changes.active_removed.append(first.row_id)
    changes.active_added.append(second)
    changes.bodies_released.append(first.body_id)
    changes.bodies_taken.append(second.body_id)
    await owner.commit(changes)
    (found,) = await owner.store.read_active(5, 0, 9, NO_LIMIT)
    expect(found.raw == _RAW, True, "it moved and kept its bytes")
    await _expect_bodies(owner, kept=[1], gone=[])
    await _send(owner, [_copy(4, 2), _copy(6, 2)])
    await _settle(owner, [second, _copy(4, 2)])
    await _expect_bodies(owner, kept=[1], gone=[])
    await _settle(owner, [_copy(6, 2)])
    await _expect_bodies(owner, kept=[], gone=[1])
    await owner.store.close()


async def check_many_bodies_are_counted_apart(place: StorePlace) -> None:
    """Runs of neighbours with the same difference, and gaps between them."""
    owner = await owner_of(place)
    count = 40
    fan_out = {i: 1 + i % 3 for i in range(1, count + 1)}
    copies = [
        _copy(4 + n, i, body=i) for i, uses in fan_out.items() for n in range(uses)
    ]
    await _send(owner, copies, *fan_out)
    settled = [c for c in copies if c.row_id < message(5, 0).row_id]
    await _settle(owner, settled[::-1])
    gone = [i for i, uses in fan_out.items() if uses == 1]
    await _expect_bodies(owner, kept=[i for i in fan_out if i not in gone], gone=gone)
    await _settle(owner, [c for c in copies if c not in settled])
    await _expect_bodies(owner, kept=[], gone=list(fan_out))
    await owner.store.close()


async def check_failed_commit_counts_nothing(place: StorePlace) -> None:
    owner = await owner_of(place)
    copy = _copy(4, 1)
    await _send(owner, [copy], 1)
    failing = ChangeSet()
    failing.active_removed.append(copy.row_id)
    failing.bodies_released.append(copy.body_id)
    failing.bodies_added.append(SharedBody(body_id=_body_id(2), raw=_RAW))
    failing.bodies_taken.append(_body_id(2))
    failing.active_added += [_copy(4, 2, body=2), _copy(4, 2, body=2)]
    with refused(CommitFailed, "a row id is used once"):
        await owner.commit(failing)
    (found,) = await owner.store.read_active(4, 0, 9, NO_LIMIT)
    expect(found.raw == _RAW, True, "the body is as before")
    await _expect_bodies(owner, kept=[1], gone=[2])
    await owner.store.close()


async def check_purge_releases_bodies(place: StorePlace) -> None:
    owner = await owner_of(place)
    copies = [_copy(4, i, body=i) for i in range(1, 8)]
    await _send(owner, [*copies, _copy(5, 1, body=7)], *range(1, 8))
    moved = ChangeSet()
    moved.active_removed += row_ids(copies[:2])
    moved.deferred_added.append(copies[0])
    copies[1].scheduled_at = NOW
    moved.scheduled_added.append(copies[1])
    moved.dropped.append(4)
    await owner.commit(moved)
    expect(await owner.store.purge(4, 4), False, "a portion")
    await _expect_bodies(owner, kept=[1, 2, 7], gone=[3, 4, 5, 6])
    expect(await owner.store.purge(4, 4), True, "the rest")
    await _expect_bodies(owner, kept=[7], gone=[1, 2])
    (found,) = await owner.store.read_active(5, 0, 9, NO_LIMIT)
    expect(found.raw == _RAW, True, "what others use stays")
    await owner.store.close()


async def check_topic_is_purged_after_its_bodies(place: StorePlace) -> None:
    """Row ids of the topic name them, so its number is not free before."""
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.records += [record(_TOPIC), record(4)]
    await owner.commit(changes)
    await _send(owner, [_copy(4, 1)], 1)
    changes = ChangeSet()
    changes.dropped += [_TOPIC, 4]
    await owner.commit(changes)
    expect(await owner.store.purge(_TOPIC, 9), False, "a subscription has messages")
    expect(await owner.store.purge(4, 9), True, "they go")
    expect(await owner.store.purge(_TOPIC, 9), True, "and the topic after them")
    owner = await owner.reopened()
    expect(owner.opened.purging, [], "nothing is left to purge")
    await owner.store.close()


CHECKS = (
    check_shared_messages_are_read_with_their_bytes,
    check_a_body_lives_as_long_as_it_is_used,
    check_uses_of_a_commit_add_up,
    check_many_bodies_are_counted_apart,
    check_failed_commit_counts_nothing,
    check_purge_releases_bodies,
    check_topic_is_purged_after_its_bodies,
)
