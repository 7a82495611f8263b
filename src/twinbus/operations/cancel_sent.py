"""Cancel sent: removes messages by their send ids.

Only messages that no client has received are removed: scheduled ones, and on a transfer
queue also active ones that are not locked, because no application receives from it. The
ids stay recorded, so a copy that arrives later is dropped, too.

A message with a key is in the fragment of its key, so all fragments are searched.
"""

import asyncio
from collections.abc import Sequence

from twinbus.auth.claims import Claim
from twinbus.broker import operation_log, schedule
from twinbus.broker.fragment import MAIN
from twinbus.broker.message import ACTIVE, SCHEDULED, Message
from twinbus.broker.row_id import sequence_of
from twinbus.broker.transfer_queue import is_transfer_queue
from twinbus.encoding.identity import SEND_ID_KIND, send_key
from twinbus.entities.queue import Queue
from twinbus.errors import NotAllowed
from twinbus.limits import PEEK_BYTES, PEEK_COUNT
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.ready_messages import ReadyMessages


async def cancel_sent(handle: EntityHandle, send_ids: Sequence[bytes]) -> list[bool]:
    """Remove the messages with these send ids. Returns True for each id that was
    removed. Raises FragmentUnavailable before any is."""
    handle.require(Claim.SEND)
    if handle.sub_queue != MAIN:
        raise NotAllowed(entity_path=handle.path)
    keys = [SEND_ID_KIND + send_id for send_id in send_ids]
    takes_active = _is_transfer_queue(handle)
    cancelled: set[bytes] = set()
    parts = handle.parts()
    if handle.is_check:
        return []
    for part in parts:
        await part.settle_down()
        cancelled |= await _cancel(part, set(keys), takes_active)
    return [key in cancelled for key in keys]


async def _cancel(
    part: FragmentHandle, wanted: set[bytes], takes_active: bool
) -> set[bytes]:
    """Search all messages page by page. Returns the keys of removed ones."""
    owner, fragment = part.owner, part.fragment
    cancelled: set[bytes] = set()
    first = 0
    while True:
        async with owner.reading:
            page = await owner.store.browse(
                fragment.number, first, PEEK_COUNT, PEEK_BYTES
            )
            fragment.check_exists()
            found = _cancel_in(part, page, wanted, takes_active)
        if found:
            # Not at the end: a commit in between may fail.
            await owner.durable()
            cancelled |= found
        if not page:
            return cancelled
        first = sequence_of(page[-1].row_id) + 1
        # A backlog may be long: let other tasks run.
        await asyncio.sleep(0)


def _cancel_in(
    part: FragmentHandle, page: list[Message], wanted: set[bytes], takes_active: bool
) -> set[bytes]:
    changes, now = part.owner.changes, part.now()
    ready = ReadyMessages(part.fragment, changes.active_removed)
    cancelled: set[bytes] = set()
    for message in page:
        key = send_key(message)
        if key is None or key not in wanted:
            continue
        if message.state == SCHEDULED:
            if message.row_id in changes.scheduled_removed:
                continue
            schedule.cancel(part.fragment, message, part.actor, now, changes)
            cancelled.add(key)
        elif message.state == ACTIVE and takes_active:
            free = ready.find(message)
            if free is not None:
                changes.log.record(operation_log.CANCEL, part.actor, free, now)
                part.fragment.forget(free, changes)
                cancelled.add(key)
    return cancelled


def _is_transfer_queue(handle: EntityHandle) -> bool:
    return isinstance(handle.entity, Queue) and is_transfer_queue(handle.entity.path)
