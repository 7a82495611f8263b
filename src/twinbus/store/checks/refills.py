"""One read for many windows: as single reads would answer, within one limit."""

from twinbus.broker.changes import ChangeSet
from twinbus.broker.message import DEFERRED, Message
from twinbus.store.base import WindowRefill
from twinbus.store.checks.expectation import expect
from twinbus.store.checks.owner import (
    NO_LIMIT,
    Owner,
    all_values,
    message,
    owner_of,
    row_ids,
)
from twinbus.store.checks.places import StorePlace

_FRAGMENTS = (0, 1, 32768, 65535)


def _refill(
    number: int,
    *,
    session_id: str | None = None,
    after: int = 0,
    limit: int = 100,
    limit_bytes: int = NO_LIMIT,
) -> WindowRefill:
    return WindowRefill(
        fragment_number=number,
        session_id=session_id,
        after=after,
        limit=limit,
        limit_bytes=limit_bytes,
    )


async def _filled(place: StorePlace) -> Owner:
    """Ten messages of 100 bytes in each of some fragments, every second in a session,
    and a deferred one."""
    owner = await owner_of(place)
    changes = ChangeSet()
    for number in _FRAGMENTS:
        changes.active_added += [
            message(number, i, raw=bytes(100), session_id="s" if i % 2 else None)
            for i in range(1, 11)
        ]
        changes.deferred_added.append(message(number, 11, state=DEFERRED))
    await owner.commit(changes)
    return owner


async def check_refills_are_what_single_reads_give(place: StorePlace) -> None:
    owner = await _filled(place)
    refills = [
        _refill(65535, limit=3),
        _refill(0, session_id="s", after=2, limit_bytes=201),
        _refill(2),
        _refill(1, after=8),
        _refill(32768, session_id="no such session"),
        _refill(0, limit_bytes=1),
    ]
    found = await owner.store.read_refills(refills, NO_LIMIT, NO_LIMIT)
    expect(len(found), len(refills), "a portion for each window")
    for refill, portion in zip(refills, found, strict=True):
        alone = await _single_read(owner, refill)
        expect(all_values(portion), all_values(alone), f"the same for {refill}")
        expect(row_ids(portion), row_ids(alone), f"in the same order for {refill}")
    await owner.store.close()


async def _single_read(owner: Owner, refill: WindowRefill) -> list[Message]:
    number, session_id = refill.fragment_number, refill.session_id
    limits = (refill.after, refill.limit, refill.limit_bytes)
    if session_id is None:
        return await owner.store.read_active(number, *limits)
    return await owner.store.read_session(number, session_id, *limits)


async def check_refills_are_limited_in_whole(place: StorePlace) -> None:
    owner = await _filled(place)
    refills = [_refill(0, limit=4), _refill(1, limit=4), _refill(65535, limit=4)]
    for limit, limit_bytes, counts in (
        (12, NO_LIMIT, [4, 4, 4]),
        (11, NO_LIMIT, [4, 4, 3]),
        (8, NO_LIMIT, [4, 4]),
        (5, NO_LIMIT, [4, 1]),
        (1, NO_LIMIT, [1]),
        (12, 1_200, [4, 4, 4]),
        (12, 1_001, [4, 4, 3]),
        (12, 800, [4, 4]),
        (12, 401, [4, 1]),
        (12, 1, [1]),
    ):
        found = await owner.store.read_refills(refills, limit, limit_bytes)
        rule = f"refills within {limit} messages and {limit_bytes} bytes in whole"
        expect([len(portion) for portion in found], counts, rule)
    await owner.store.close()


async def check_empty_windows_do_not_end_a_refill(place: StorePlace) -> None:
    owner = await _filled(place)
    refills = [_refill(7), _refill(1, after=10), _refill(8), _refill(0, limit=2)]
    found = await owner.store.read_refills(refills, 2, 200)
    expect([len(portion) for portion in found], [0, 0, 0, 2], "an answer for each")
    expect(await owner.store.read_refills([], 10, 10), [], "no window, no portion")
    await owner.store.close()


async def check_thousands_of_windows_are_refilled(place: StorePlace) -> None:
    owner = await owner_of(place)
    changes = ChangeSet()
    changes.active_added += [message(number, 1) for number in range(3_000)]
    await owner.commit(changes)
    refills = [_refill(number) for number in range(3_000)]
    found = await owner.store.read_refills(refills, NO_LIMIT, NO_LIMIT)
    expected = [[message(number, 1).row_id] for number in range(3_000)]
    expect([row_ids(portion) for portion in found], expected, "all of them at once")
    await owner.store.close()


CHECKS = (
    check_refills_are_what_single_reads_give,
    check_refills_are_limited_in_whole,
    check_empty_windows_do_not_end_a_refill,
    check_thousands_of_windows_are_refilled,
)
