"""Cancel sent: a management operation that takes back what its sender names by send id.

Only what nobody has been handed: on an ordinary entity scheduled messages, on a
transfer queue also active ones that are not locked, since nobody was to receive those
there. The ids stay remembered, so a copy that is still on its way is dropped, too.
"""

import asyncio

from twinbus.broker import operation_log, schedule
from twinbus.broker.fragment import MAIN
from twinbus.broker.message import ACTIVE, SCHEDULED, Message
from twinbus.broker.row_id import sequence_of
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import array_items
from twinbus.encoding.identity import SEND_ID_KIND, send_key
from twinbus.errors import ArgumentError, ArgumentOutOfRange, NotAllowed
from twinbus.limits import (
    CANCEL_SENT_PER_REQUEST,
    PEEK_BYTES,
    PEEK_COUNT,
    SEND_ID_BYTES,
)
from twinbus.operations.managed_queue import ManagedQueue
from twinbus.operations.ready_messages import ReadyMessages


async def cancel_sent(queue: ManagedQueue, request: Request) -> Response:
    """Remove the messages with these send ids; answers which of them it did."""
    if queue.sub_queue != MAIN:
        raise NotAllowed(entity_path=queue.path)
    send_keys = _send_keys(request)
    await queue.settle_down()
    cancelled = await _cancel(queue, set(send_keys))
    if cancelled:
        await queue.owner.durable()
    return Response(value={"cancelled": [key in cancelled for key in send_keys]})


def _send_keys(request: Request) -> list[bytes]:
    """The ids of the request as the ledger has them. Raises ArgumentError,
    ArgumentOutOfRange."""
    name = "send-ids"
    send_ids = array_items(request.argument(name), name)
    if len(send_ids) > CANCEL_SENT_PER_REQUEST:
        raise ArgumentOutOfRange(
            f"'{name}' has {len(send_ids)} items; at most {CANCEL_SENT_PER_REQUEST} "
            "are allowed."
        )
    for send_id in send_ids:
        if not isinstance(send_id, bytes) or not 0 < len(send_id) <= SEND_ID_BYTES:
            raise ArgumentError(
                f"'{name}' must be binary, each of 1 to {SEND_ID_BYTES} bytes."
            )
    return [SEND_ID_KIND + send_id for send_id in send_ids]


async def _cancel(queue: ManagedQueue, wanted: set[bytes]) -> set[bytes]:
    """Go through all messages, page by page; the keys of those that were removed."""
    owner, fragment = queue.owner, queue.fragment
    cancelled: set[bytes] = set()
    first = 0
    while True:
        async with owner.reading:
            page = await owner.store.browse(
                fragment.number, first, PEEK_COUNT, PEEK_BYTES
            )
            fragment.check_exists()
            cancelled |= _cancel_in(queue, page, wanted)
        if not page:
            return cancelled
        first = sequence_of(page[-1].row_id) + 1
        # Others have their turn: a backlog may be long.
        await asyncio.sleep(0)


def _cancel_in(
    queue: ManagedQueue, page: list[Message], wanted: set[bytes]
) -> set[bytes]:
    changes = queue.owner.changes
    ready = ReadyMessages(queue.fragment, changes.active_removed)
    cancelled: set[bytes] = set()
    for message in page:
        key = send_key(message)
        if key is None or key not in wanted:
            continue
        if message.state == SCHEDULED:
            if message.row_id in changes.scheduled_removed:
                continue
            schedule.cancel(queue.fragment, message, queue.actor, queue.now(), changes)
            cancelled.add(key)
        elif message.state == ACTIVE and queue.is_transfer_queue:
            free = ready.find(message)
            if free is not None:
                _remove(queue, free)
                cancelled.add(key)
    return cancelled


def _remove(queue: ManagedQueue, message: Message) -> None:
    changes = queue.owner.changes
    changes.log.record(operation_log.CANCEL, queue.actor, message, queue.now())
    queue.fragment.forget(message, changes)
