"""Management operations on locks: renew them, settle by them.

Settling by lock token works for messages received over a link that is gone, and for
deferred ones, which never had a link. A request with several tokens is applied
whole or not at all.
"""

from typing import Final
from uuid import UUID

from twinbus.amqp.types import AmqpArray, Timestamp
from twinbus.broker import operation_log
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.settlement import check_not_enlisted
from twinbus.doors.amqp.management_sessions import optional_session
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import array_items
from twinbus.errors import ArgumentError, ArgumentOutOfRange, SessionLockLost
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
from twinbus.links.transactional_work import TransactionalSettlement
from twinbus.operations.managed_queue import ManagedQueue

_TIMESTAMP: Final = 0x83
_KINDS: Final = {
    "completed": COMPLETE,
    "abandoned": ABANDON,
    "suspended": DEAD_LETTER,
    "defered": DEFER,
    "unlocked": RELEASE,
}


async def renew_locks(queue: ManagedQueue, request: Request) -> Response:
    """Let locks last a full lock duration from now."""
    now = queue.now()
    fragment, changes = queue.fragment, queue.owner.changes
    expirations: list[object] = []
    for lock in _locks(queue, request, now):
        expirations.append(Timestamp(fragment.renew(lock, now)))
        message = lock.message
        changes.log.record(operation_log.RENEW, queue.actor, message, now)
    return Response(value={"expirations": AmqpArray(_TIMESTAMP, expirations)})


async def update_disposition(queue: ManagedQueue, request: Request) -> Response:
    """Settle by lock token."""
    status = request.argument("disposition-status")
    if not isinstance(status, str) or status not in _KINDS:
        raise ArgumentOutOfRange(
            f"The disposition status '{status}' must be one of {', '.join(_KINDS)}."
        )
    intended = Settlement(
        _KINDS[status],
        modified_properties(_properties_to_modify(request)),
        dead_letter_text(request.optional("deadletter-reason")) or None,
        dead_letter_text(request.optional("deadletter-description")) or None,
    )
    now = queue.now()
    fragment, owner, actor = queue.fragment, queue.owner, queue.actor
    locks = _locks(queue, request, now)
    for lock in locks:
        check_not_enlisted(fragment, lock)
        intended.check(fragment, lock)
    if request.transaction is not None:
        for lock in locks:
            work = TransactionalSettlement(fragment, lock, intended, actor)
            request.transaction.enlist_lock(lock, work, now)
        return Response()
    for lock in locks:
        intended.apply(fragment, lock, actor, now, owner.changes)
    await owner.durable()
    return Response()


def _properties_to_modify(request: Request) -> dict[object, object] | None:
    properties = request.optional("properties-to-modify")
    if properties is not None and not isinstance(properties, dict):
        raise ArgumentError("'properties-to-modify' must be a map.")
    return properties


def _locks(queue: ManagedQueue, request: Request, now: int) -> list[MessageLock]:
    """The live locks of the tokens in the request.

    Raises MessageLockLost, SessionLockLost, MessagingEntityNotFound.
    """
    queue.fragment.check_exists()
    session_id = optional_session(queue, request)
    locks = []
    for token in _lock_tokens(request):
        lock = queue.fragment.lock_of(token, now)
        if session_id is not None and lock.message.session_id != session_id:
            raise SessionLockLost.named(session_id, entity_path=queue.path)
        locks.append(lock)
    return locks


def _lock_tokens(request: Request) -> list[bytes]:
    """Each once, as bytes: of UUIDs a client can choose as many with one hash as it
    likes. Raises ArgumentError."""
    tokens = array_items(request.argument("lock-tokens"), "lock-tokens")
    if not all(isinstance(token, UUID) for token in tokens):
        raise ArgumentError("'lock-tokens' must be an array of uuids.")
    return list(dict.fromkeys(token.bytes_le for token in tokens))
