"""Schedule messages, and cancel scheduled messages.

Messages of one request may have different keys. Each goes to the fragment of its key;
all of them are checked before any is accepted.
"""

import asyncio
from collections.abc import Sequence

from twinbus.auth.claims import Claim
from twinbus.broker import schedule
from twinbus.broker.message import Message
from twinbus.broker.row_id import sequence_of
from twinbus.errors import MessageNotFound, ServiceBusError
from twinbus.fragments.transaction_key import fragment_in_transaction
from twinbus.links.enlistment import Enlistment
from twinbus.links.sending import check, check_room, check_status
from twinbus.links.transactional_work import (
    TransactionalCancel,
    TransactionalSchedule,
    number_of,
)
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.named_messages import rows_of
from twinbus.operations.sending import read, route, sent
from twinbus.operations.several_stores import Reading, durable, settle_down

_Messages = dict[FragmentHandle, list[Message]]


async def schedule_messages(
    handle: EntityHandle,
    encoded: Sequence[bytes],
    transaction: Enlistment | None = None,
) -> list[int]:
    """Accept encoded messages that become active later. Returns their numbers."""
    handle.require(Claim.SEND)
    handle.check_may_send()
    messages = [read(handle, raw) for raw in encoded]
    if transaction is not None:
        return _schedule_in(transaction, handle, messages)
    by_part: _Messages = {}
    for message in messages:
        by_part.setdefault(route(handle, [message]), []).append(message)
    _check_room(handle, by_part)
    if handle.is_check:
        return []
    numbers = await _accepted(handle, by_part)
    return [numbers[message] for message in messages]


def _check_room(handle: EntityHandle, messages: _Messages) -> None:
    """All fragments would accept their messages now. Raises ServerBusy, QuotaExceeded,
    EntityDisabled."""
    for part, of_part in messages.items():
        size_bytes = sum(len(message.raw) for message in of_part)
        check_room(part.fragment, size_bytes, handle.now())
        check_status(part.fragment)


async def _accepted(handle: EntityHandle, messages: _Messages) -> dict[Message, int]:
    """The number of each message, when all are durable. Raises the first error, when
    all stores have answered."""
    sending = [sent(handle, *each) for each in messages.items()]
    outcomes = await asyncio.gather(*sending, return_exceptions=True)
    numbers: dict[Message, int] = {}
    for part, of_part in zip(outcomes, messages.values(), strict=True):
        if isinstance(part, BaseException):
            raise part
        numbers.update((one, number_of(part.fragment, one)) for one in of_part)
    return numbers


def _schedule_in(
    transaction: Enlistment, handle: EntityHandle, messages: list[Message]
) -> list[int]:
    """Raises as `enlist` does, and NotAllowed if the messages do not have the key of
    the transaction."""
    now, index = handle.now(), 0
    if handle.entity.is_partitioned:
        routing = handle.entity.routing()
        found = fragment_in_transaction(transaction.find(now), routing, messages)
        index = found.index
    part = handle.part(index)
    for message in messages:
        check(part.fragment, message)
    work = TransactionalSchedule(part.fragment, messages, part.actor)
    transaction.enlist(work, now)
    return work.reserve()


async def cancel_scheduled(
    handle: EntityHandle, numbers: Sequence[int], transaction: Enlistment | None = None
) -> None:
    """Cancel all these scheduled messages or none. Raises MessageNotFound."""
    handle.require(Claim.SEND)
    rows = rows_of(handle, numbers)
    await settle_down(rows)
    async with Reading(rows):
        found: _Messages = {}
        for part, row_ids in rows.items():
            found[part] = await part.owner.store.read_scheduled(row_ids)
        for part, row_ids in rows.items():
            part.fragment.check_exists()
            _check_all_there(part, row_ids, found[part])
        if handle.is_check:
            return
        for part, messages in found.items():
            _cancel(part, messages, transaction)
    if transaction is None:
        await durable(rows)


def _check_all_there(
    part: FragmentHandle, row_ids: list[int], found: list[Message]
) -> None:
    removed = part.owner.changes.scheduled_removed
    missing = set(row_ids).difference(message.row_id for message in found)
    missing.update(set(row_ids).intersection(removed))
    if missing:
        number = part.visible(sequence_of(min(missing)))
        raise MessageNotFound.numbered(number, entity_path=part.path)


def _cancel(
    part: FragmentHandle, messages: list[Message], transaction: Enlistment | None
) -> None:
    changes, now = part.owner.changes, part.now()
    for message in messages:
        if transaction is None:
            schedule.cancel(part.fragment, message, part.actor, now, changes)
        else:
            _cancel_in(transaction, part, message)


def _cancel_in(transaction: Enlistment, part: FragmentHandle, message: Message) -> None:
    work = TransactionalCancel(part.fragment, message, part.actor)
    work.claim()
    try:
        transaction.enlist(work, part.now())
    except ServiceBusError:
        work.let_go()
        raise
