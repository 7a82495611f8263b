"""Removes messages for good: thousands in a request, by batch delete.

Messages that come while the command runs stay, and so do those that a receiver holds.
Batch delete knows active messages only; deferred and scheduled ones are looked for and
removed by their numbers.
"""

from functools import partial
from typing import Final

from twinbus.amqp.types import AmqpArray, Int, Timestamp, UInt
from twinbus.cli.messages.message_json import message_json
from twinbus.cli.messages.namespace_side import NamespaceSide, told_as_failure
from twinbus.cli.messages.peeking import peeked_payloads
from twinbus.cli.messages.progress import Progress
from twinbus.client.management import ask
from twinbus.errors import MessageNotFound

_AT_ONCE: Final = 4_000
"""The largest number that the service allows."""

_LONG: Final = 0x81


async def purge(
    side: NamespaceSide, path: str, progress: Progress, *, is_every_state: bool
) -> int:
    """Remove the messages of an entity. Returns how many. Raises Failure."""
    with told_as_failure(side, path):
        removed = await purge_active(side, path, progress)
        if is_every_state:
            removed += await _purge_others(side, path, removed, progress)
    return removed


async def purge_active(
    side: NamespaceSide, path: str, progress: Progress, count: int | None = None
) -> int:
    """Remove the oldest; None: all that are there now. Raises errors of the client."""
    before = Timestamp(side.clock.now())
    removed = 0
    while count is None or removed < count:
        wanted = _AT_ONCE if count is None else min(count - removed, _AT_ONCE)
        body: dict[object, object] = {
            "message-count": Int(wanted),
            "enqueued-time-utc": before,
        }
        answer = await _asked(side, path, "batch-delete-messages", body)
        found = answer.get("message-count")
        if not isinstance(found, int) or not found:
            break
        removed += found
        progress(removed)
    return removed


async def _purge_others(
    side: NamespaceSide, path: str, done: int, progress: Progress
) -> int:
    removed = 0
    async for payloads in peeked_payloads(side, path, count=None):
        numbers: dict[str, list[object]] = {"deferred": [], "scheduled": []}
        for payload in payloads:
            message = message_json(payload)
            state = message.get("state")
            if state in numbers:
                numbers[state].append(message["sequence_number"])
        for number in numbers["deferred"]:
            removed += await _remove_deferred(side, path, number)
        if numbers["scheduled"]:
            body: dict[object, object] = {
                "sequence-numbers": AmqpArray(_LONG, numbers["scheduled"])
            }
            await _asked(side, path, "cancel-scheduled-message", body)
            removed += len(numbers["scheduled"])
        progress(done + removed)
    return removed


async def _remove_deferred(side: NamespaceSide, path: str, number: object) -> bool:
    """One at a time: a request with one that is locked does nothing."""
    body: dict[object, object] = {
        "sequence-numbers": AmqpArray(_LONG, [number]),
        "receiver-settle-mode": UInt(0),
    }
    try:
        await _asked(side, path, "receive-by-sequence-number", body)
    except MessageNotFound:
        return False
    return True


async def _asked(
    side: NamespaceSide, path: str, operation: str, body: dict[object, object]
) -> dict[object, object]:
    connection = await side.connection(path)
    return await side.patiently(partial(ask, connection, path, operation, body))
