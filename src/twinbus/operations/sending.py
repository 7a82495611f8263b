"""Send messages to an entity. They are durable before the operation returns.

Links have their own code (`links/send_link.py`), which needs no coroutine. Both use
`links/sending.py`.
"""

from collections.abc import Sequence

from twinbus.auth.claims import Claim
from twinbus.broker.message import Message
from twinbus.links.sending import Sending, check, check_status
from twinbus.links.transactional_work import number_of
from twinbus.operations.awaited_commit import AwaitedCommit
from twinbus.operations.entity_handle import EntityHandle


async def send(handle: EntityHandle, encoded: Sequence[bytes]) -> list[int]:
    """Send all these encoded messages or none. Returns their sequence numbers: 0 for
    a duplicate and for a ping.

    Raises EntityDisabled, NotAllowed, QuotaExceeded, ServerBusy, MessageSizeExceeded.
    """
    check_may_send(handle)
    messages = [read(handle, raw) for raw in encoded]
    await begin_sending(handle, messages).done()
    return [number_of(handle.fragment, message) for message in messages]


def check_may_send(handle: EntityHandle) -> None:
    """Raises UnauthorizedAccess, EntityDisabled, NotAllowed."""
    handle.require(Claim.SEND)
    handle.check_may_send()
    check_status(handle.fragment)


def read(handle: EntityHandle, encoded: bytes) -> Message:
    """Raises ArgumentError, MessageSizeExceeded, NotAllowed."""
    message = handle.arrivals.read_one(encoded, handle.now())
    check(handle.fragment, message)
    return message


def begin_sending(handle: EntityHandle, messages: list[Message]) -> AwaitedCommit:
    """Admit messages without waiting, so that several entities can share a commit."""
    handle.require(Claim.SEND)
    commit = AwaitedCommit()
    sending = Sending(handle.fragment, messages, handle.actor, 0, commit)
    handle.fragment.home.admit(sending)
    return commit
