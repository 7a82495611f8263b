"""Looks at messages of any state, and changes nothing."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from twinbus.amqp.types import Int
from twinbus.cli.messages.message_json import message_json
from twinbus.cli.messages.namespace_side import NamespaceSide
from twinbus.client.management import ask

_AT_ONCE: Final = 250
"""Of one request; the service gives as many."""


async def peeked_payloads(
    side: NamespaceSide,
    entity: str,
    *,
    count: int | None,
    first: int = 0,
    session_id: str | None = None,
) -> AsyncIterator[list[bytes]]:
    """The messages from a sequence number on, in portions; None: all that there are.
    Raises errors of the client."""
    left = count
    connection = await side.connection(entity)
    while left is None or left > 0:
        body: dict[object, object] = {
            "from-sequence-number": first,
            "message-count": Int(_AT_ONCE if left is None else min(left, _AT_ONCE)),
        }
        if session_id is not None:
            body["session-id"] = session_id
        answer = await side.patiently(
            partial(ask, connection, entity, "peek-message", body)
        )
        found = answer.get("messages")
        if not isinstance(found, list) or not found:
            return
        payloads = [bytes(one["message"]) for one in found]
        yield payloads
        first = message_json(payloads[-1])["sequence_number"] + 1
        if left is not None:
            left -= len(payloads)
