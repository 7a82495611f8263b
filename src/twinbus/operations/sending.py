"""Send messages to an entity. They are durable before the operation returns.

Links have their own code (`links/send_link.py`), which needs no coroutine. Both use
`links/sending.py`. The key of a message decides which fragment of a partitioned entity
gets it (`fragments/routing.py`).
"""

from collections.abc import Sequence

from twinbus.auth.claims import Claim
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.errors import FragmentUnavailable, ServerBusy, StoreRefused
from twinbus.fragments.hashing import fragment_index
from twinbus.links.routes import any_with_room
from twinbus.links.sending import Sending, check, give_keys_back
from twinbus.links.transactional_work import number_of
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.owner.awaited_commit import AwaitedCommit


async def send(handle: EntityHandle, encoded: Sequence[bytes]) -> list[int]:
    """Send all these encoded messages or none. Returns their sequence numbers: 0 for
    a duplicate, for a ping, and if they are kept elsewhere while their store is away.

    Raises EntityDisabled, NotAllowed, QuotaExceeded, ServerBusy, MessageSizeExceeded.
    """
    check_may_send(handle)
    return await _send(handle, [read(handle, raw) for raw in encoded])


async def send_batch(handle: EntityHandle, encoded: Sequence[bytes]) -> list[int]:
    """The same for messages that are one batch: together they have the size limit that
    the batch of a link has."""
    check_may_send(handle)
    return await _send(handle, handle.arrivals.read_batch(encoded, handle.now()))


async def _send(handle: EntityHandle, messages: list[Message]) -> list[int]:
    try:
        part = route(handle, messages)
        check_order(part)
        part = await sent(handle, part, messages)
    except (FragmentUnavailable, StoreRefused) as error:
        await _divert(handle, messages, error)
        return [0] * len(messages)
    return [number_of(part.fragment, message) for message in messages]


def check_order(part: FragmentHandle) -> None:
    """Raises FragmentUnavailable if what was sent before is still on its way."""
    if part.fragment.is_awaited():
        raise FragmentUnavailable.numbered(part.index, part.path)


async def _divert(
    handle: EntityHandle, messages: list[Message], error: ServerBusy
) -> None:
    """Have the messages kept until their store is back. Raises the error if they take
    no detour."""
    detour, commit = handle.detour(), AwaitedCommit()
    if detour is None:
        raise error
    try:
        detour.send(messages, commit, 0)
    except FragmentUnavailable:
        raise error from None
    await commit.done()


async def sent(
    handle: EntityHandle, part: FragmentHandle, messages: list[Message]
) -> FragmentHandle:
    """Send messages to the fragment that they were routed to, and wait. If its store
    did not take them, and they have no key, they go to another one. Returns the
    fragment that has them."""
    refused_by: list[Home] = []
    while True:
        try:
            await begin_sending(part, messages).done()
        except StoreRefused:
            give_keys_back(messages)
            if fixed_index(handle, messages) is not None:
                raise
            refused_by.append(part.fragment.home)
            part = route(handle, messages, refused_by)
        else:
            return part


def check_may_send(handle: EntityHandle) -> None:
    """Raises UnauthorizedAccess, EntityDisabled, NotAllowed."""
    handle.require(Claim.SEND)
    handle.check_may_send()


def read(handle: EntityHandle, encoded: bytes) -> Message:
    """Raises ArgumentError, MessageSizeExceeded."""
    return handle.arrivals.read_one(encoded, handle.now())


def route(
    handle: EntityHandle,
    messages: list[Message],
    refused_by: list[Home] | None = None,
) -> FragmentHandle:
    """The fragment that gets all these messages. Raises NotAllowed if their keys
    differ, or if the entity does not accept one of them; FragmentUnavailable."""
    index = fixed_index(handle, messages)
    if index is None:
        size_bytes = sum(len(message.raw) for message in messages)
        routing = handle.entity.routing()
        index = any_with_room(routing, size_bytes, refused_by, handle.now()).index
    part = handle.part(index)
    for message in messages:
        check(part.fragment, message)
    return part


def fixed_index(handle: EntityHandle, messages: list[Message]) -> int | None:
    """The index of the one fragment that may get these messages; None if any may.
    Raises NotAllowed if their keys differ."""
    if not handle.entity.is_partitioned:
        return 0
    if handle.only is not None:
        return handle.only[0]
    key = handle.entity.routing().key_of(messages)
    return None if key is None else fragment_index(key, handle.fragment_count)


def begin_sending(part: FragmentHandle, messages: list[Message]) -> AwaitedCommit:
    """Admit messages without waiting, so that several entities can share a commit."""
    part.require(Claim.SEND)
    commit = AwaitedCommit()
    sending = Sending(part.fragment, messages, part.actor, 0, commit)
    part.fragment.home.admit(sending)
    return commit
