"""Resubmission: dead letters become messages of their entity again.

A dead letter leaves its queue and comes back to the queue or subscription that it was a
message of, in one commit: it is in one of the two at any moment, also after a crash.
Other subscriptions of the topic do not get it. It is a new message: with a new sequence
number, no deliveries, and its time to live from the beginning. What was remembered to
detect duplicates is not asked.

It skips dead letters that a receiver holds, that a range reader has planned, or that
the entity could not have: those without a session id, if it requires sessions.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from twinbus.auth.claims import Claim
from twinbus.broker import operation_log, reader_lease
from twinbus.broker.fragment import DEAD_LETTER, MAIN, Fragment
from twinbus.broker.message import NO_ANNEX, Message, uid_of
from twinbus.broker.row_id import sequence_of
from twinbus.encoding.incoming import read_message
from twinbus.errors import NotAllowed
from twinbus.limits import PEEK_BYTES
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.ready_messages import ReadyMessages

_ANY_SIZE: Final = 1 << 62
"""The properties of a message that was accepted once are not too large."""


async def resubmit(
    handle: EntityHandle,
    count: int,
    before: int,
    numbers: Sequence[int] | None = None,
) -> int:
    """Resubmit up to `count` dead letters that came at or before `before`; if numbers
    are given, only those. Returns how many. Raises NotAllowed, and FragmentUnavailable
    before any is resubmitted."""
    handle.require(Claim.LISTEN)
    handle.require(Claim.SEND)
    if handle.sub_queue != DEAD_LETTER:
        raise NotAllowed(
            f"'{handle.path}' is not a dead-letter queue: only dead letters can be "
            "resubmitted.",
            entity_path=handle.path,
        )
    handle.check_may_receive()
    parts, done = handle.parts(), 0
    if handle.is_check:
        return 0
    for part in parts:
        if done < count:
            wanted = None if numbers is None else _of_part(part, numbers)
            done += await _resubmit_in(handle, part, count - done, before, wanted)
    return done


def _of_part(part: FragmentHandle, numbers: Sequence[int]) -> list[int]:
    """The fragment's own numbers, in order."""
    base = part.fragment.visible_base
    return sorted(
        {sequence_of(one) for one in numbers if one - sequence_of(one) == base}
    )


async def _resubmit_in(
    handle: EntityHandle,
    part: FragmentHandle,
    count: int,
    before: int,
    wanted: list[int] | None,
) -> int:
    target = handle.entity.fragment(MAIN, part.index)
    await part.settle_down()
    async with part.owner.reading:
        done = await _move(part, target, count, before, wanted)
    if done:
        await part.owner.durable()
    return done


async def _move(
    part: FragmentHandle,
    target: Fragment,
    count: int,
    before: int,
    wanted: list[int] | None,
) -> int:
    fragment, store = part.fragment, part.owner.store
    after = done = 0
    while done < count:
        if wanted is not None:
            if not wanted:
                break
            after = wanted.pop(0) - 1
        else:
            after = reader_lease.behind_plan(fragment, after)
        limit = count - done if wanted is None else 1
        found = await store.read_active(fragment.number, after, limit, PEEK_BYTES)
        fragment.check_exists()
        target.check_exists()
        ready = ReadyMessages(fragment, part.owner.changes.active_removed)
        for message in found:
            number = sequence_of(message.row_id)
            if wanted is not None and number != after + 1:
                break
            after = number
            if message.enqueued_at > before:
                if wanted is None:
                    return done
                break
            done += _move_one(part, target, ready, message)
        if not found and wanted is None:
            break
    return done


def _move_one(
    part: FragmentHandle, target: Fragment, ready: ReadyMessages, message: Message
) -> bool:
    """`message` is as the store has it, with its bytes."""
    dead_letter = ready.find(message)
    if dead_letter is None:
        return False
    again = _again(message)
    # The log tells of one message, wherever it was.
    again.uid = uid_of(dead_letter, part.fragment.home.store_uuid)
    if target.settings.requires_session and again.session_id is None:
        return False
    changes, now = part.owner.changes, part.now()
    changes.log.record(operation_log.DELETE, part.actor, dead_letter, now)
    part.fragment.forget(dead_letter, changes)
    target.enqueue(again, part.actor, now, changes)
    return True


def _again(dead_letter: Message) -> Message:
    """The message of a dead letter, as it was sent."""
    read = read_message(dead_letter.raw, 0, _ANY_SIZE)
    message = Message(dead_letter.raw, dead_letter.layout, read.ttl_ms, 0)
    message.session_id = read.session_id
    message.body_id = dead_letter.body_id
    message.is_shared = dead_letter.is_shared
    annex = dead_letter.annex or NO_ANNEX
    if annex.modified:
        message.annex = replace(NO_ANNEX, modified=annex.modified)
    return message
