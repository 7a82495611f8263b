"""Counts what waits in the backlog queues of a primary, from outside.

It uses the vendor's SDK at the secondary namespace, so it works from anywhere and with
any namespace, and it takes nothing out of the queues. The numbers come from the
administration client. Peeking at the first messages of each queue tells which entities
they are for, and how old they are.

Each queue costs a request and some peeks, which are billed by the vendor.
"""

import asyncio
import re
from collections import Counter
from typing import Any, Final

from azure.servicebus import ServiceBusMessageState

from twinbus.instants import instant_ms
from twinbus.pairing.backlog_status import BacklogQueueStatus, BacklogSurvey
from twinbus.pairing.detour import PATH

PEEK_COUNT: Final = 1_000
"""Messages to peek at in each queue: enough to see which entities they are for."""

_PEEKED_AT_A_TIME: Final = 250
_QUEUES_AT_A_TIME: Final = 5
_PATH: Final = re.compile(
    r"(?P<primary>.+)/x-servicebus-transfer/(?P<name>[0-9]+|lease)", re.IGNORECASE
)


async def survey_backlog(
    administration: Any, client: Any, primary_name: str, peek_count: int = PEEK_COUNT
) -> BacklogSurvey:
    """Survey the backlog queues. The clients are asynchronous ones of the SDK, for the
    secondary. Raises the SDK's errors."""
    counted: list[tuple[int, BacklogQueueStatus]] = []
    primaries: set[str] = set()
    lease = None
    async for properties in administration.list_queues_runtime_properties():
        match = _PATH.fullmatch(properties.name)
        if match is None:
            continue
        primaries.add(match["primary"])
        if match["primary"].lower() != primary_name.lower():
            continue
        if match["name"].isdigit():
            counted.append((int(match["name"]), _counted(properties)))
        else:
            lease = properties.name
    gate = asyncio.Semaphore(_QUEUES_AT_A_TIME)
    in_order = [queue for _, queue in sorted(counted, key=lambda item: item[0])]
    looks = (_looked_at(client, queue, peek_count, gate) for queue in in_order)
    return BacklogSurvey(
        primary_name=primary_name,
        queues=tuple(await asyncio.gather(*looks)),
        lease=lease,
        primaries=tuple(sorted(primaries)),
    )


def _counted(properties: Any) -> BacklogQueueStatus:
    dead_letters = properties.dead_letter_message_count or 0
    return BacklogQueueStatus(
        path=properties.name,
        # Deferred messages are counted in the total only, by some namespaces.
        waiting=(properties.total_message_count or 0) - dead_letters,
        dead_letters=dead_letters,
        size_bytes=properties.size_in_bytes or 0,
    )


async def _looked_at(
    client: Any, queue: BacklogQueueStatus, peek_count: int, gate: asyncio.Semaphore
) -> BacklogQueueStatus:
    if queue.waiting == 0 or peek_count == 0:
        return queue
    async with gate, client.get_queue_receiver(queue.path) as receiver:
        messages = await peeked(receiver, peek_count)
    paths = Counter(path_of(message) for message in messages)
    parked = Counter(path_of(message) for message in messages if _is_deferred(message))
    times = [message.enqueued_time_utc for message in messages]
    # The count is older than the peek, and a syphon may be at work. If all messages
    # were peeked at, count those, so that queues and entities add up to the same.
    is_whole = len(messages) < peek_count
    return BacklogQueueStatus(
        path=queue.path,
        waiting=len(messages) if is_whole else max(queue.waiting, len(messages)),
        dead_letters=queue.dead_letters,
        size_bytes=queue.size_bytes,
        oldest_at=instant_ms(min(times)) if times else None,
        entities=paths,
        parked=parked,
        looked_at=len(messages),
    )


async def peeked(receiver: Any, count: int) -> list[Any]:
    """Peek at the first messages of a queue."""
    found: list[Any] = []
    number = 0
    while len(found) < count:
        limit = min(count - len(found), _PEEKED_AT_A_TIME)
        page = await receiver.peek_messages(limit, sequence_number=number)
        if not page:
            break
        found += page
        number = page[-1].sequence_number + 1
    return found


def path_of(message: Any) -> str:
    """The entity of a diverted message; empty if the message does not name one."""
    properties = message.application_properties or {}
    value = properties.get(PATH.encode(), properties.get(PATH))
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return text if isinstance(text, str) else ""


def _is_deferred(message: Any) -> bool:
    return bool(message.state == ServiceBusMessageState.DEFERRED)
