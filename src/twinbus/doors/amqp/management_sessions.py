"""Management requests about sessions: their locks, states and ids."""

from typing import Final

from twinbus.amqp.types import AmqpArray, Int, Timestamp
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import (
    MAX_INT,
    MAX_LONG,
    integer,
    named_session,
)
from twinbus.errors import ArgumentError
from twinbus.operations import sessions
from twinbus.operations.entity_handle import EntityHandle

_STRING: Final = 0xB1

_ALL_SESSIONS: Final = 253_402_300_800_000
"""`last-updated-time` of a request for all sessions, not only for those whose state was
set since: DateTime.MaxValue, as .NET rounds it."""


async def renew_session_lock(handle: EntityHandle, request: Request) -> Response:
    locked_until = await sessions.renew_session(handle, named_session(request))
    return Response(value={"expiration": Timestamp(locked_until)})


async def get_session_state(handle: EntityHandle, request: Request) -> Response:
    state = await sessions.session_state(handle, named_session(request))
    return Response(value={"session-state": state})


async def set_session_state(handle: EntityHandle, request: Request) -> Response:
    session_id, state = named_session(request), request.optional("session-state")
    if state is not None and not isinstance(state, bytes):
        raise ArgumentError("'session-state' must be binary, or null to clear it.")
    await sessions.set_session_state(handle, session_id, state, request.transaction)
    return Response()


async def list_sessions(handle: EntityHandle, request: Request) -> Response:
    name = "last-updated-time"
    since = integer(request.argument(name), name, -MAX_LONG - 1, MAX_LONG)
    skip = integer(request.argument("skip"), "skip", 0, MAX_INT)
    top = integer(request.argument("top"), "top", 1, MAX_INT)
    updated_since = None if since >= _ALL_SESSIONS else since
    found: list[object] = list(
        await sessions.list_sessions(handle, skip, top, updated_since)
    )
    return Response(
        value={
            "skip": Int(skip + len(found)),
            "sessions-ids": AmqpArray(_STRING, found),
        }
    )
