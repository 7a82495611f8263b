"""Schedule messages, and cancel scheduled messages."""

from collections.abc import Sequence

from twinbus.auth.claims import Claim
from twinbus.broker import schedule
from twinbus.broker.message import Message
from twinbus.broker.row_id import sequence_of
from twinbus.errors import MessageNotFound, ServiceBusError
from twinbus.links.enlistment import Enlistment
from twinbus.links.transactional_work import (
    TransactionalCancel,
    TransactionalSchedule,
    number_of,
)
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.sending import begin_sending, read


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
        work = TransactionalSchedule(handle.fragment, messages, handle.actor)
        transaction.enlist(work, handle.now())
        return work.reserve()
    await begin_sending(handle, messages).done()
    return [number_of(handle.fragment, message) for message in messages]


async def cancel_scheduled(
    handle: EntityHandle, numbers: Sequence[int], transaction: Enlistment | None = None
) -> None:
    """Cancel all these scheduled messages or none. Raises MessageNotFound."""
    handle.require(Claim.SEND)
    await handle.settle_down()
    fragment, owner = handle.fragment, handle.owner
    row_ids = [fragment.row_id(number) for number in numbers]
    async with owner.reading:
        found = await owner.store.read_scheduled(row_ids)
        fragment.check_exists()
        _check_all_there(handle, row_ids, found)
        if transaction is not None:
            _cancel_in(transaction, handle, found)
            return
        for message in found:
            schedule.cancel(
                fragment, message, handle.actor, handle.now(), owner.changes
            )
    await owner.durable()


def _check_all_there(
    handle: EntityHandle, row_ids: list[int], found: list[Message]
) -> None:
    removed = handle.owner.changes.scheduled_removed
    missing = set(row_ids).difference(message.row_id for message in found)
    missing.update(set(row_ids).intersection(removed))
    if missing:
        number = handle.visible(sequence_of(min(missing)))
        raise MessageNotFound.numbered(number, entity_path=handle.path)


def _cancel_in(
    transaction: Enlistment, handle: EntityHandle, messages: list[Message]
) -> None:
    for message in messages:
        work = TransactionalCancel(handle.fragment, message, handle.actor)
        work.claim()
        try:
            transaction.enlist(work, handle.now())
        except ServiceBusError:
            work.let_go()
            raise
