"""What the clients of a simulated cluster have in common: a connection with its links,
and what they may be told."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from simulator.broker_audit import BrokerAudit, Delivery, SentMessage, SessionHold
from simulator.sighting import Violation
from simulator.simulated_broker import KEY, KEY_NAME
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.messaging import (
    AmqpMap,
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.sasl import plain
from twinbus.amqp.types import Symbol
from twinbus.client.connection import ClientConnection, connect
from twinbus.client.errors import ClientError
from twinbus.client.receiver import ClientReceiver
from twinbus.client.sender import ClientSender
from twinbus.client.transactions import Controller
from twinbus.errors import ServiceBusError

SESSIONS: Final = "sessions"
"""The queue that requires sessions."""

SESSION_IDS: Final = ("a", "b", "c")

TAKEN: Final = "taken"
"""The queue whose receivers delete what they receive."""

RANGES: Final = "ranges"
"""The queue that is read in ranges."""

TEMPORARY: Final = ("temporary-0", "temporary-1")
"""Queues that come and go."""

_RETRYABLE: Final = (
    "com.microsoft:server-busy",
    "amqp:internal-error",
    "amqp:link:detach-forced",
    "amqp:connection:forced",
    "com.microsoft:timeout",
    "com.microsoft:message-lock-lost",
    "com.microsoft:session-lock-lost",
    "com.microsoft:session-cannot-be-locked",
    "amqp:transaction:rollback",
)
"""What a client of entities that exist may be told."""

_GONE: Final = ("amqp:not-found", "com.microsoft:entity-already-exists")
"""The same of entities that come and go."""

_PARTITION_KEY: Final = Symbol("x-opt-partition-key")

Troubles = (OSError, TimeoutError, ClientError, ServiceBusError)

FindBroker = Callable[[Random], tuple[str, int] | None]
"""Place and port of one that a client may try."""


@dataclass(slots=True, kw_only=True)
class Means:
    """What a client has for everything it does."""

    name: str
    random: Random
    audit: BrokerAudit
    tell: Callable[[str], None]
    # How long it waits for an answer.
    patience: float


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """A message that a client has, and the link on which it came."""

    delivery: Delivery
    receiver: ClientReceiver
    delivery_id: int


@dataclass(slots=True, kw_only=True, eq=False)
class Visit:
    """A connection to a broker."""

    connection: ClientConnection
    place: str
    port: int
    patience: float
    # By path.
    senders: dict[str, ClientSender] = field(default_factory=dict)
    receivers: dict[str, ClientReceiver] = field(default_factory=dict)
    # The session that it has, and the link on which it has it.
    session: tuple[SessionHold, ClientReceiver] | None = None
    controller: Controller | None = None

    async def sender(self, path: str) -> ClientSender:
        if path not in self.senders:
            self.senders[path] = await self.connection.sender(
                path, timeout_seconds=self.patience
            )
        return self.senders[path]

    async def receiver(self, path: str) -> ClientReceiver:
        if path not in self.receivers:
            self.receivers[path] = await self.connection.receiver(
                path, credit=0, settled=path == TAKEN, timeout_seconds=self.patience
            )
        return self.receivers[path]

    def forget_lost(self) -> None:
        """Links that have ended are made again."""
        self.senders = {p: one for p, one in self.senders.items() if one.usable}
        self.receivers = {p: one for p, one in self.receivers.items() if one.usable}
        if self.session is not None and not self.session[1].usable:
            self.session = None


async def visited(found: tuple[str, int], patience: float) -> Visit:
    """Raises OSError, TimeoutError, ClientError."""
    place, port = found
    sasl = plain(KEY_NAME, KEY)
    connection = await connect(place, port, sasl=sasl, timeout_seconds=5.0)
    return Visit(connection=connection, place=place, port=port, patience=patience)


def check_told(condition: str, path: str, text: object) -> None:
    """Raises Violation if a client has no reason to try again."""
    is_fitting = condition in _RETRYABLE or (path in TEMPORARY and condition in _GONE)
    if not is_fitting:
        raise Violation(f"a client is told: {text}")


def check_error(error: ClientError | ServiceBusError, path: str) -> None:
    """As `check_told`."""
    if isinstance(error, ServiceBusError):
        check_told(error.condition, path, error)
    elif error.error is not None:
        check_told(error.error.condition, path, error.error)


def payload_of(sent: SentMessage, key: str = "") -> bytes:
    """A message that ends with its number; on the queue with sessions, of one of
    them. `key` chooses its fragment."""
    session_id = SESSION_IDS[sent.number % len(SESSION_IDS)]
    properties = Properties(group_id=session_id) if sent.path == SESSIONS else None
    body = Data((f"{sent.number:08}".encode(),))
    annotations: AmqpMap | None = {_PARTITION_KEY: key} if key else None
    return encode_message(
        Message(message_annotations=annotations, properties=properties, body=body)
    )


def number_of(payload: bytes) -> int:
    return int(payload[-8:])


def read_payload(message: MessageReceived) -> tuple[int, int]:
    """The number of the message, and how often it was delivered before."""
    payload = bytes(message.payload)
    header = decode_message(payload).header or Header()
    return number_of(payload), header.delivery_count or 0


def now() -> float:
    """In virtual seconds."""
    return asyncio.get_running_loop().time()
