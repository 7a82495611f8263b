"""Management requests about locks: renew them, settle by lock token."""

from typing import Final
from uuid import UUID

from twinbus.amqp.types import AmqpArray, Timestamp
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import array_items, session_of
from twinbus.errors import ArgumentError, ArgumentOutOfRange
from twinbus.links.outcomes import (
    ABANDON,
    COMPLETE,
    DEAD_LETTER,
    DEFER,
    RELEASE,
    Settlement,
    dead_letter_text,
    modified_properties,
)
from twinbus.operations import locks
from twinbus.operations.entity_handle import EntityHandle

_TIMESTAMP: Final = 0x83
_KINDS: Final = {
    "completed": COMPLETE,
    "abandoned": ABANDON,
    "suspended": DEAD_LETTER,
    "defered": DEFER,
    "unlocked": RELEASE,
}


async def renew_locks(handle: EntityHandle, request: Request) -> Response:
    tokens, session_id = _lock_tokens(request), session_of(request)
    ends = await locks.renew_locks(handle, tokens, session_id)
    expirations: list[object] = [Timestamp(end) for end in ends]
    return Response(value={"expirations": AmqpArray(_TIMESTAMP, expirations)})


async def update_disposition(handle: EntityHandle, request: Request) -> Response:
    settlement, tokens = _settlement(request), _lock_tokens(request)
    await locks.settle(
        handle, tokens, settlement, session_of(request), request.transaction
    )
    return Response()


def _settlement(request: Request) -> Settlement:
    """Raises ArgumentError, ArgumentOutOfRange."""
    status = request.argument("disposition-status")
    if not isinstance(status, str) or status not in _KINDS:
        raise ArgumentOutOfRange(
            f"The disposition status '{status}' must be one of {', '.join(_KINDS)}."
        )
    return Settlement(
        _KINDS[status],
        modified_properties(_properties_to_modify(request)),
        dead_letter_text(request.optional("deadletter-reason")) or None,
        dead_letter_text(request.optional("deadletter-description")) or None,
    )


def _properties_to_modify(request: Request) -> dict[object, object] | None:
    properties = request.optional("properties-to-modify")
    if properties is not None and not isinstance(properties, dict):
        raise ArgumentError("'properties-to-modify' must be a map.")
    return properties


def _lock_tokens(request: Request) -> list[bytes]:
    """As bytes, because a client could send many UUIDs with the same hash. Raises
    ArgumentError."""
    tokens = array_items(request.argument("lock-tokens"), "lock-tokens")
    if not all(isinstance(token, UUID) for token in tokens):
        raise ArgumentError("'lock-tokens' must be an array of uuids.")
    return [token.bytes_le for token in tokens]
