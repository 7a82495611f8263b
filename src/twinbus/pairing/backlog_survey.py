"""How much waits in the backlog queues of a primary, seen from outside.

For people and for metrics: it looks at the secondary namespace with the vendor's SDK,
so it can be done from anywhere and of any namespace, and it takes nothing out. Numbers
come from the administration client; whose messages they are, and how old, is seen by
peeking at the first ones of each queue.

Every look at a queue costs a request and some peeks, which are billed.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from azure.servicebus import ServiceBusMessageState

from twinbus.pairing.detour import PATH

PEEK_COUNT: Final = 1_000
"""Messages of a queue that are looked at: enough to see who is waiting."""

_PEEKED_AT_A_TIME: Final = 250
_QUEUES_AT_A_TIME: Final = 5
_PATH: Final = re.compile(
    r"(?P<primary>.+)/x-servicebus-transfer/(?P<name>[0-9]+|lease)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogQueueStatus:
    """One backlog queue."""

    path: str
    # Messages that are there, but for dead letters.
    waiting: int
    dead_letters: int
    size_bytes: int
    # When the oldest was enqueued; None if there is none.
    oldest_at: int | None = None
    # Of those that were looked at: how many wait for each entity of the primary, and
    # how many of these are deferred, because the entity did not take them.
    entities: Mapping[str, int] = field(default_factory=dict)
    parked: Mapping[str, int] = field(default_factory=dict)
    looked_at: int = 0

    @property
    def is_unused(self) -> bool:
        return self.waiting == 0 and self.dead_letters == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogSurvey:
    """The backlog of one primary."""

    primary_name: str
    queues: tuple[BacklogQueueStatus, ...]
    # Path of the queue by whose session a server holds the right to run the syphon;
    # None if no server ever did.
    lease: str | None
    # All primaries that have backlog queues there.
    primaries: tuple[str, ...]

    @property
    def missing(self) -> str:
        """What to tell people if there are no queues."""
        others = f"; those of {', '.join(self.primaries)} are" if self.primaries else ""
        return f"No backlog queues of '{self.primary_name}' are there{others}."

    @property
    def waiting(self) -> int:
        return sum(queue.waiting for queue in self.queues)

    @property
    def dead_letters(self) -> int:
        return sum(queue.dead_letters for queue in self.queues)

    @property
    def oldest_at(self) -> int | None:
        known = [queue.oldest_at for queue in self.queues if queue.oldest_at]
        return min(known, default=None)


async def survey_backlog(
    administration: Any, client: Any, primary_name: str, peek_count: int = PEEK_COUNT
) -> BacklogSurvey:
    """Look at the backlog queues; the clients are the SDK's asynchronous ones, of the
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
    return BacklogQueueStatus(
        path=queue.path,
        waiting=queue.waiting,
        dead_letters=queue.dead_letters,
        size_bytes=queue.size_bytes,
        oldest_at=_ms(min(times)) if times else None,
        entities=paths,
        parked=parked,
        looked_at=len(messages),
    )


async def peeked(receiver: Any, count: int) -> list[Any]:
    """The first messages of a queue, at most so many."""
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
    """Where a diverted message belongs; empty if it does not say."""
    properties = message.application_properties or {}
    value = properties.get(PATH.encode(), properties.get(PATH))
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return text if isinstance(text, str) else ""


def _is_deferred(message: Any) -> bool:
    return bool(message.state == ServiceBusMessageState.DEFERRED)


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
