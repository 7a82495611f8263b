"""Request and response over a pair of links, for `$cbs` and `$management`.

A client attaches a sender and a receiver to the same node on one session. A request is
answered on a receiver of that session: the one whose target is the request's reply-to,
else the one whose name is, else any. The SDKs differ in this. The response's
correlation id is the request's message id, of the same AMQP type.

Each node has its own names for the status and error in its answers.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from twinbus.amqp.composite import from_described
from twinbus.amqp.decoder import decode, has_more_values
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import (
    AmqpMap,
    AmqpValue,
    Message,
    Properties,
    Target,
    decode_message,
    encode_message,
)
from twinbus.amqp.outcomes import ACCEPTED, encode_rejected
from twinbus.amqp.session import AmqpSession
from twinbus.amqp.transactions import TransactionalState
from twinbus.amqp.types import Described, Int, ULong
from twinbus.encoding.layout import PROPERTIES
from twinbus.encoding.sections import find_sections
from twinbus.errors import (
    ArgumentError,
    InternalError,
    MessageSizeExceeded,
    ServiceBusError,
)
from twinbus.limits import (
    MANAGEMENT_CREDIT,
    REQUEST_VALUES,
    UNSETTLED_PER_SESSION,
)
from twinbus.links.coordinator import Coordinator
from twinbus.links.enlistment import Enlistment
from twinbus.links.outcomes import accepted_in
from twinbus.links.output import Output
from twinbus.links.refusal import amqp_error, overrun, track
from twinbus.owner.turns import Turns

_log = logging.getLogger(__name__)

_HELD_BYTES: Final = 512
"""Memory of a request or an answer, besides its payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A client's request to a node."""

    operation: str
    properties: Mapping[object, Any]
    # The value of the body; most operations take a map.
    value: object
    # If it is part of a transaction, the commit applies its changes.
    transaction: Enlistment | None = None

    def argument(self, name: str) -> Any:
        """An entry of the body. Raises ArgumentError if it is missing."""
        if not isinstance(self.value, dict) or self.value.get(name) is None:
            raise ArgumentError(
                f"The request '{self.operation}' needs '{name}' in its body."
            )
        return self.value[name]

    def optional(self, name: str) -> Any:
        return self.value.get(name) if isinstance(self.value, dict) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A node's answer. Its value is an empty map by default."""

    status: int = 200
    description: str = "OK"
    value: object = field(default_factory=dict)
    # The error's condition; some nodes do not send it.
    condition: str | None = None


class Unanswered:
    """Memory of one connection's open requests and unread answers."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.size_bytes = 0
        self._on_change = on_change
        # Links whose answers wait for the window of their session, by session. When it
        # opens, only these are visited, and not a thousand links.
        self._stalled: dict[AmqpSession, dict[ResponseLink, None]] = {}

    def add(self, size_bytes: int) -> None:
        """Add to the size; the number may be negative."""
        self.size_bytes += size_bytes
        self._on_change()

    def stall(self, session: AmqpSession, link: "ResponseLink") -> None:
        """Note that the link's answers wait for the window."""
        self._stalled.setdefault(session, {})[link] = None

    def window_opened(self, session: AmqpSession) -> None:
        """Send waiting answers while the window is open."""
        links = self._stalled.get(session, {})
        while links and session.window_open():
            link = next(iter(links))
            del links[link]
            link.send_waiting()

    def forget(self, session: AmqpSession, link: "ResponseLink") -> None:
        """The link is gone."""
        links = self._stalled.get(session, {})
        links.pop(link, None)
        if not links:
            self._stalled.pop(session, None)


class Node(Protocol):
    """Something that answers requests at one address."""

    address: str
    # The largest request that it ever accepts; sent in the attach.
    max_request_bytes: int

    def allowed_request_bytes(self) -> int:
        """The largest request now. It is smaller before a token was put, because
        anyone can send then."""
        ...

    async def answer(self, request: Request) -> Response: ...

    def status_properties(self, response: Response) -> AmqpMap:
        """Status and error, named as clients of this node read them."""
        ...


class ResponseLink:
    """The link on which one client receives a node's answers."""

    def __init__(
        self, link: Link, node: Node, output: Output, unanswered: Unanswered
    ) -> None:
        self._link = link
        self.node = node
        self._output = output
        self._unanswered = unanswered
        # Answers that wait for credit, or for the client to read.
        self._waiting: deque[tuple[RequestLink, bytes]] = deque()
        self._sent_count = 0

    def is_for(self, reply_to: str | None) -> int:
        """How well this link matches a reply-to: 2 by target, 1 by name, else 0."""
        target = self._link.target
        if reply_to is None:
            return 0
        if isinstance(target, Target) and target.address == reply_to:
            return 2
        return 1 if self._link.name == reply_to else 0

    def respond(self, asked_on: "RequestLink", payload: bytes) -> None:
        self._waiting.append((asked_on, payload))
        self._unanswered.add(_HELD_BYTES + len(payload))
        self.send_waiting()

    def send_waiting(self) -> None:
        """Send as many answers as the client's credit allows, while it reads."""
        settled = self._link.snd_settle_mode == 1
        while self._waiting and self._may_send():
            self._sent_count += 1
            tag = self._sent_count.to_bytes(4, "big")
            asked_on, payload = self._pop()
            at = self._link.send(payload, tag, settled, self)
            unsettled = self._link.session.unsettled
            if len(unsettled) > UNSETTLED_PER_SESSION:
                # Limits the memory of a client that does not settle answers.
                unsettled.pop(at, None)
            asked_on.answered()
            # Write each answer before the next: the client may stop reading.
            if self._waiting:
                self._output.flush()
        if self._waiting and not self._link.session.window_open():
            self._unanswered.stall(self._link.session, self)
        if self._link.drain and not self._waiting:
            self._link.drained()
        self._output.mark()

    def _may_send(self) -> bool:
        """False if an answer must wait. It waits here, where its bytes are counted."""
        has_room = self._link.credit > 0 and self._link.session.window_open()
        return has_room and self._output.is_writable

    def _pop(self) -> "tuple[RequestLink, bytes]":
        asked_on, payload = self._waiting.popleft()
        self._unanswered.add(-_HELD_BYTES - len(payload))
        return asked_on, payload

    def close(self) -> None:
        """The link is gone: drop the answers that wait."""
        self._unanswered.forget(self._link.session, self)
        while self._waiting:
            asked_on, _ = self._pop()
            asked_on.answered()


class RequestLink:
    """The link on which one client sends requests to a node."""

    def __init__(
        self,
        link: Link,
        node: Node,
        responses: list[ResponseLink],
        tasks: set[asyncio.Task[None]],
        coordinator: Coordinator,
        output: Output,
        turns: Turns,
        unanswered: Unanswered,
    ) -> None:
        self._link = link
        self._node = node
        # The response links of the same session, kept by its connection.
        self._responses = responses
        # The requests of the connection that are under way.
        self._tasks = tasks
        # The transactions of the connection.
        self._coordinator = coordinator
        self._output = output
        self._turns = turns
        self._unanswered = unanswered
        # Requests whose answer is not sent yet. Bounded: they take memory.
        self._unanswered_count = 0
        self._is_open = True

    def start(self) -> None:
        self._link.issue_credit(MANAGEMENT_CREDIT)

    def on_message(self, delivery: MessageReceived, now: int) -> None:
        """Accept a request, and start a task that answers it."""
        if not self._is_open or self._is_overrun():
            return
        limit = self._node.allowed_request_bytes()
        is_oversize = delivery.oversize or len(delivery.payload) > limit
        verdict = self._oversize(limit) if is_oversize else self._taken(delivery, now)
        self._unanswered_count += 1
        if is_oversize:
            self._settle(delivery, verdict)
            self.answered()
            return
        self._top_up()
        self._unanswered.add(_HELD_BYTES + len(delivery.payload))
        task = asyncio.create_task(self._serve(delivery, verdict, now))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _settle(self, delivery: MessageReceived, verdict: bytes) -> None:
        if not delivery.settled:
            session: AmqpSession = self._link.session
            at = delivery.delivery_id
            session.send_disposition(True, at, at, True, verdict)
        self._output.mark()

    def _is_overrun(self) -> bool:
        """Detach the link if the client has sent a request without credit."""
        if self._link.credit >= 0:
            return False
        self._is_open = False
        error = overrun(
            f"more than {MANAGEMENT_CREDIT} requests wait for their answers: read "
            "those, and heed the link's credit",
        )
        self._link.detach(error)
        self._output.mark()
        return True

    def answered(self) -> None:
        """An answer was sent, or is not needed."""
        self._unanswered_count -= 1
        self._top_up()

    def _top_up(self) -> None:
        """Issue credit. Credit and unanswered requests have one limit together."""
        room = MANAGEMENT_CREDIT - self._unanswered_count
        if self._link.credit <= MANAGEMENT_CREDIT // 2 and room > self._link.credit:
            self._link.issue_credit(room)
            self._output.mark()

    def _oversize(self, limit: int) -> bytes:
        error = MessageSizeExceeded(
            f"The request to '{self._node.address}' is larger than {limit} bytes, "
            "the limit of that node."
        )
        return encode_rejected(amqp_error(error))

    def _taken(self, delivery: MessageReceived, now: int) -> bytes:
        """The outcome of the transfer; the response has that of the request."""
        state = delivery.state
        if not isinstance(state, TransactionalState):
            return ACCEPTED
        try:
            self._coordinator.find(state.txn_id, now)
        except ServiceBusError as error:
            return encode_rejected(amqp_error(error))
        return accepted_in(state.txn_id)

    async def _serve(self, delivery: MessageReceived, verdict: bytes, now: int) -> None:
        message: Message | None = None
        transaction = self._transaction(delivery)
        # Wait for a turn: a client may send a hundred requests at once.
        await self._turns.begun()
        try:
            message = _decoded(delivery.payload)
            response = await self._node.answer(_request(message, transaction))
        except DecodeError as error:
            response = _refusal(ArgumentError(f"The request is malformed: {error}."))
        except ServiceBusError as error:
            if transaction is not None:
                transaction.doom(error, now)
            response = _refusal(error)
        except Exception:
            _log.exception("a request to %s failed", self._node.address)
            response = _refusal(InternalError())
        if message is None:
            message = Message(properties=_properties(delivery.payload))
        self._reply(message, response)
        # Settle after the answer, and in one write with it. So the client's thread that
        # sent the request finds its answer first, and no thread waits for a frame that
        # another one has read. Not later: a client may wait for it before it reads.
        self._settle(delivery, verdict)
        self._unanswered.add(-_HELD_BYTES - len(delivery.payload))
        self._output.flush_all()

    def _transaction(self, delivery: MessageReceived) -> Enlistment | None:
        state = delivery.state
        if isinstance(state, TransactionalState):
            return Enlistment(self._coordinator, state.txn_id)
        return None

    def _reply(self, request: Message, response: Response) -> None:
        properties = request.properties or Properties()
        link = self._reply_link(properties.reply_to)
        if link is None:
            _log.info("no link for the answer of %s", self._node.address)
            self.answered()
            return
        answer = Message(
            properties=Properties(correlation_id=properties.message_id),
            application_properties=self._node.status_properties(response),
            body=AmqpValue(response.value),
        )
        link.respond(self, encode_message(answer))

    def _reply_link(self, reply_to: str | None) -> ResponseLink | None:
        fitting = [link for link in self._responses if link.node is self._node]
        fitting = fitting or [
            link for link in self._responses if link.node.address == self._node.address
        ]
        return max(fitting, key=lambda link: link.is_for(reply_to), default=None)


def _properties(payload: bytes) -> Properties | None:
    """The properties of a request that was not decoded: its answer needs its id."""
    try:
        place = find_sections(payload).get(PROPERTIES)
        if place is None:
            return None
        fields, _ = decode(payload, place[0])
        found = from_described(Described(ULong(PROPERTIES), fields))
    except DecodeError:
        return None
    return found if isinstance(found, Properties) else None


def _decoded(payload: bytes) -> Message:
    """Raises DecodeError."""
    # Each value has at least a byte, so a short payload need not be counted.
    if len(payload) > REQUEST_VALUES and has_more_values(payload, REQUEST_VALUES):
        raise DecodeError(
            f"it has more than {REQUEST_VALUES} values in it; ask for less at a time"
        )
    return decode_message(payload)


def _request(message: Message, transaction: Enlistment | None) -> Request:
    properties = message.application_properties or {}
    body = message.body
    return Request(
        operation=str(properties.get("operation", "")),
        properties=properties,
        value=body.value if isinstance(body, AmqpValue) else None,
        transaction=transaction,
    )


def _refusal(error: ServiceBusError) -> Response:
    track(error)
    return Response(
        status=error.http_status,
        description=error.description,
        condition=error.condition,
    )


def status_code(response: Response) -> Int:
    """As an AMQP int: clients fail with other widths."""
    return Int(response.status)
