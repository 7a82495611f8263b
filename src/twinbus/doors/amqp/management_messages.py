"""Management requests about messages: peek, receive deferred, schedule, delete,
cancel."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from twinbus.amqp.types import AmqpArray, Int, Timestamp
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import (
    MAX_INT,
    MAX_LONG,
    array_items,
    integer,
    session_of,
)
from twinbus.errors import ArgumentError, ArgumentOutOfRange
from twinbus.limits import BATCH_DELETE_COUNT, CANCEL_SENT_PER_REQUEST, SEND_ID_BYTES
from twinbus.limits import SCHEDULE_PER_REQUEST as SCHEDULE_LIMIT
from twinbus.operations import (
    cancel_sent,
    deferred,
    deletion,
    peeking,
    resubmission,
    scheduling,
)
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.received_message import ReceivedMessage

_LONG: Final = 0x81


async def peek(handle: EntityHandle, request: Request) -> Response:
    name = "from-sequence-number"
    start = integer(request.argument(name), name, -MAX_LONG - 1, MAX_LONG)
    count = integer(request.argument("message-count"), "message-count", 1, MAX_INT)
    found = await peeking.peek(handle, start, count, session_of(request))
    if not found:
        return Response(status=204, description="No messages.")
    return _messages(found)


async def receive_deferred(handle: EntityHandle, request: Request) -> Response:
    name = "receiver-settle-mode"
    received = await deferred.receive_deferred(
        handle,
        _sequence_numbers(request),
        peek_lock=integer(request.argument(name), name, 0, 1) == 1,
        session_id=session_of(request),
    )
    return _messages(received)


def _messages(received: Sequence[ReceivedMessage]) -> Response:
    entries = []
    for item in received:
        entry: dict[str, object] = {"message": item.encoded}
        if item.lock_token:
            entry["lock-token"] = UUID(bytes_le=item.lock_token)
        entries.append(entry)
    return Response(value={"messages": entries})


async def schedule_messages(handle: EntityHandle, request: Request) -> Response:
    entries = request.argument("messages")
    if not isinstance(entries, list) or not 0 < len(entries) <= SCHEDULE_LIMIT:
        raise ArgumentError(f"'messages' must be a list of 1 to {SCHEDULE_LIMIT} maps.")
    encoded = [_encoded_message(entry) for entry in entries]
    numbers: list[object] = list(
        await scheduling.schedule_messages(handle, encoded, request.transaction)
    )
    return Response(value={"sequence-numbers": AmqpArray(_LONG, numbers)})


def _encoded_message(entry: object) -> bytes:
    raw = entry.get("message") if isinstance(entry, dict) else None
    if not isinstance(raw, bytes):
        raise ArgumentError("Each of 'messages' needs an encoded 'message'.")
    return raw


async def cancel_scheduled(handle: EntityHandle, request: Request) -> Response:
    numbers = _sequence_numbers(request)
    await scheduling.cancel_scheduled(handle, numbers, request.transaction)
    return Response()


async def delete_messages(handle: EntityHandle, request: Request) -> Response:
    name = "message-count"
    count = integer(request.argument(name), name, 1, BATCH_DELETE_COUNT)
    name = "enqueued-time-utc"
    before = integer(request.argument(name), name, -MAX_LONG - 1, MAX_LONG)
    session_id = session_of(request)
    removed = await deletion.delete_messages(handle, count, before, session_id)
    status = 200 if removed else 204
    return Response(status=status, value={"message-count": Int(removed)})


async def resubmit(handle: EntityHandle, request: Request) -> Response:
    name = "message-count"
    count = integer(request.argument(name), name, 1, BATCH_DELETE_COUNT)
    name = "enqueued-time-utc"
    before = handle.now()
    if isinstance(request.value, dict) and name in request.value:
        before = integer(request.argument(name), name, -MAX_LONG - 1, MAX_LONG)
    has_numbers = (
        isinstance(request.value, dict) and "sequence-numbers" in request.value
    )
    numbers = _sequence_numbers(request) if has_numbers else None
    done = await resubmission.resubmit(handle, count, before, numbers)
    # By our own clock, for the requests that follow.
    return Response(value={"message-count": Int(done), name: Timestamp(before)})


async def cancel_by_send_id(handle: EntityHandle, request: Request) -> Response:
    cancelled = await cancel_sent.cancel_sent(handle, _send_ids(request))
    return Response(value={"cancelled": cancelled})


def _sequence_numbers(request: Request) -> list[int]:
    """The numbers of the request, without repetitions. Raises ArgumentError."""
    name = "sequence-numbers"
    numbers = array_items(request.argument(name), name)
    return list(dict.fromkeys(integer(number, name, 0, MAX_LONG) for number in numbers))


def _send_ids(request: Request) -> list[bytes]:
    """Raises ArgumentError, ArgumentOutOfRange."""
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
    return send_ids
