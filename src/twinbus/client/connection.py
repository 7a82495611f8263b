"""The client's connection: an asyncio protocol around the sans-I/O engine.

It gives received bytes to the engine, the engine's events to links, and writes what the
engine has to send; a timer sends heartbeats. The rules of the protocol are all in
twinbus.amqp. When the connection ends, so does everything that waits for it.
"""

import asyncio
import ssl as ssl_module
from collections.abc import Awaitable, Callable
from typing import Any, Self, cast
from uuid import uuid4

from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.encoder import NULL
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import (
    ConnectionClosed,
    ConnectionOpened,
    DispositionReceived,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    MessageReceived,
    SessionEnded,
    SessionWindowOpened,
)
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import AmqpValue, Message, Source, Target
from twinbus.amqp.outcomes import Received
from twinbus.amqp.performatives import SENDER_SETTLED, SENDER_UNSETTLED
from twinbus.amqp.sasl import SaslCredentials, anonymous
from twinbus.amqp.session import AmqpSession
from twinbus.amqp.transactions import Coordinator
from twinbus.amqp.types import Symbol
from twinbus.client.errors import ConnectionLost, RequestFailed
from twinbus.client.link import ClientLink
from twinbus.client.receiver import ClientReceiver
from twinbus.client.requests import ReplyLink, Requester
from twinbus.client.sender import ClientSender, SendBatch
from twinbus.client.transactions import Controller

DEFAULT_TIMEOUT_SECONDS = 30.0

SAS_TOKEN = "servicebus.windows.net:sastoken"

LinkProperties = dict[object, object]

Reached = Awaitable[tuple[asyncio.Transport, "ClientConnection"]]


async def connect(
    host: str,
    port: int,
    *,
    ssl: ssl_module.SSLContext | None = None,
    sasl: SaslCredentials | None = None,
    hostname: str = "",
    user_agent: str = "",
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> "ClientConnection":
    """Connect and open; SASL is anonymous if no credentials are given. `hostname`: what
    is asked for in place of the host. `user_agent`: who we say we are. Raises OSError,
    TimeoutError, or ConnectionLost with the peer's reason."""
    loop = asyncio.get_running_loop()
    return await open_over(
        lambda make: loop.create_connection(make, host, port, ssl=ssl),
        sasl=sasl or anonymous(),
        hostname=hostname or host,
        user_agent=user_agent,
        timeout_seconds=timeout_seconds,
    )


async def open_over(
    reach: Callable[[Callable[[], "ClientConnection"]], Reached],
    *,
    sasl: SaslCredentials,
    hostname: str,
    user_agent: str = "",
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> "ClientConnection":
    """The same over a transport that `reach` makes for the connection."""
    engine = Connection(
        Role.CLIENT,
        f"twinbus-{uuid4()}",
        hostname=hostname,
        properties={Symbol("user-agent"): user_agent} if user_agent else None,
        sasl=sasl,
    )
    async with asyncio.timeout(timeout_seconds):
        _, connection = await reach(lambda: ClientConnection(engine))
        try:
            await connection.opened()
        except BaseException:
            connection.abort()
            raise
    return connection


class ClientConnection(asyncio.Protocol):
    """One AMQP connection; `async with` closes it at the end."""

    def __init__(self, engine: Connection) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] = self._loop.create_future()
        # Done when the transport is gone.
        self._closed: asyncio.Future[None] = self._loop.create_future()
        # Not set while the transport has too much to write.
        self._writable = asyncio.Event()
        self._writable.set()
        self._failure: ConnectionLost | None = None
        # The properties in the peer's open: product, extensions.
        self.peer_properties: dict[object, object] = {}
        self._links: set[ClientLink] = set()
        self._requesters: dict[str, Requester] = {}
        # Two first requests to one address share one pair of links.
        self._requester_mutex = asyncio.Lock()
        self._link_count = 0
        self._reactions: dict[type[Event], Callable[[Any], None]] = {
            ConnectionOpened: self._on_opened,
            ConnectionClosed: self._on_closed,
            SessionEnded: self._on_session_ended,
            SessionWindowOpened: self._on_window_opened,
            LinkAttached: self._on_attached,
            LinkDetached: self._on_detached,
            LinkFlow: self._on_flow,
            MessageReceived: self._on_message,
            DispositionReceived: self._on_disposition,
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether it can still be used, as far as we know."""
        return self._failure is None and self._transport is not None

    async def opened(self) -> None:
        """Wait for the peer's open. Raises ConnectionLost."""
        await asyncio.shield(self._opened)

    async def close(self, *, timeout_seconds: float = 5.0) -> None:
        """Close, and wait for the peer; after the time-out, drop the transport."""
        self._engine.close()
        self.flush()
        try:
            async with asyncio.timeout(timeout_seconds):
                await asyncio.shield(self._closed)
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        """Drop the transport without telling the peer."""
        if self._transport is not None:
            self._transport.abort()

    async def sender(
        self,
        address: str | Target | Coordinator,
        *,
        settled: bool = False,
        name: str | None = None,
        properties: LinkProperties | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> ClientSender:
        """Attach a link to send on. Raises LinkClosed if the peer refuses."""
        name = name or self._new_name("sender")
        sender = self._make_sender(self._begin(), name, address, settled, properties)
        await self._finish(sender, timeout_seconds)
        return sender

    async def controller(self) -> Controller:
        """Attach a control link, to declare transactions on."""
        return Controller(await self.sender(Coordinator()))

    async def receiver(
        self,
        address: str,
        *,
        credit: int = 1000,
        settled: bool = False,
        source_filter: dict[object, object] | None = None,
        name: str | None = None,
        properties: LinkProperties | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> ClientReceiver:
        """Attach a link to receive on. Raises LinkClosed if the peer refuses.

        `settled`: the peer sends messages settled (receive and delete). Otherwise each
        message has to be settled (peek-lock).
        """
        name = name or self._new_name("receiver")
        link = self._begin().attach_receiver(
            name,
            Source(address=address, filter=source_filter),
            Target(address=name),
            SENDER_SETTLED if settled else SENDER_UNSETTLED,
            0 if settled else 1,
            properties,
        )
        receiver = ClientReceiver(self, link, credit)
        await self._finish(receiver, timeout_seconds)
        return receiver

    async def request(
        self,
        address: str,
        message: Message,
        *,
        state: bytes | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Message:
        """Send a request to a node such as `queue/$management`, return its response.

        `state` names a transaction. Raises NotAccepted if the peer does not know it.
        """
        requester = await self._requester(address, timeout_seconds)
        return await requester.request(
            message, state=state, timeout_seconds=timeout_seconds
        )

    async def put_token(self, audience: str, token: str) -> None:
        """Prove the right to use `audience` by a token. Raises RequestFailed."""
        response = await self.request(
            "$cbs",
            Message(
                application_properties={
                    "operation": "put-token",
                    "type": SAS_TOKEN,
                    "name": audience,
                },
                body=AmqpValue(token),
            ),
        )
        answer = response.application_properties or {}
        status = answer.get("status-code")
        if not isinstance(status, int) or not 200 <= status < 300:
            description = str(answer.get("status-description", ""))
            raise RequestFailed(status if isinstance(status, int) else 0, description)

    def flush(self) -> None:
        if self._transport is None:
            return
        data = self._engine.data_to_send()
        if data:
            self._transport.write(data)
        if self._engine.closed:
            self._transport.close()

    async def writable(self) -> None:
        await self._writable.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        self._engine.open()
        self._on_timer()

    def data_received(self, data: bytes) -> None:
        self._react(self._engine.receive_data(data, self._now()))

    def connection_lost(self, exc: Exception | None) -> None:
        self._react(self._engine.eof())
        self._transport = None
        self._writable.set()
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _now(self) -> int:
        return int(self._loop.time() * 1000)

    def _on_timer(self) -> None:
        self._react(self._engine.tick(self._now()))
        deadline = self._engine.next_deadline()
        if deadline is not None:
            self._timer = self._loop.call_at(deadline / 1000, self._on_timer)

    def _react(self, events: list[Event]) -> None:
        for event in events:
            reaction = self._reactions.get(type(event))
            if reaction is not None:
                reaction(event)
        self.flush()

    def _on_opened(self, event: ConnectionOpened) -> None:
        self.peer_properties = event.properties
        if not self._opened.done():
            self._opened.set_result(None)
        # The peer's idle time-out is known only now.
        if self._timer is not None:
            self._timer.cancel()
        self._on_timer()

    def _on_closed(self, event: ConnectionClosed) -> None:
        failure = ConnectionLost("the connection is closed", event.error)
        self._failure = failure
        if not self._opened.done():
            self._opened.set_exception(failure)
            # Maybe nobody waits for it: then asyncio must not complain.
            self._opened.exception()
        for link in list(self._links):
            link.on_lost(failure)

    def _on_session_ended(self, event: SessionEnded) -> None:
        for link in event.session.links.values():
            self._lose(link, event.error)

    def _on_detached(self, event: LinkDetached) -> None:
        self._lose(event.link, event.error)

    def _lose(self, link: Link, error: AmqpError | None) -> None:
        context = link.context
        if isinstance(context, ClientLink):
            self._links.discard(context)
            context.on_detached(error)

    def _on_attached(self, event: LinkAttached) -> None:
        context = event.link.context
        if isinstance(context, ClientLink):
            context.on_attached()
        else:
            text = "this client serves no links"
            event.link.refuse(AmqpError("amqp:not-implemented", text))

    def _on_flow(self, event: LinkFlow) -> None:
        context = event.link.context
        if isinstance(context, ClientLink):
            context.wake()

    def _on_window_opened(self, event: SessionWindowOpened) -> None:
        for link in event.session.links.values():
            if isinstance(link.context, ClientLink):
                link.context.wake()

    def _on_message(self, event: MessageReceived) -> None:
        context = event.link.context
        if isinstance(context, ClientLink):
            context.on_message(event)

    def _on_disposition(self, event: DispositionReceived) -> None:
        session = event.session
        if not event.peer_is_receiver:
            if isinstance(session.context, ClientReceiver):
                session.context.on_disposition(event)
            return
        if not event.settled and isinstance(event.state, Received | None):
            return
        for _, context in session.pop_unsettled(event.first, event.last):
            if isinstance(context, SendBatch):
                context.settle(event.state)
        if not event.settled:
            # The peer has decided and waits for us to settle.
            session.send_disposition(False, event.first, event.last, True, NULL)

    def _begin(self) -> AmqpSession:
        if self._failure is not None:
            raise self._failure
        return self._engine.begin()

    def _new_name(self, kind: str) -> str:
        self._link_count += 1
        return f"{kind}-{self._link_count}-{uuid4()}"

    def _make_sender(
        self,
        session: AmqpSession,
        name: str,
        address: str | Target | Coordinator,
        settled: bool,
        properties: LinkProperties | None,
    ) -> ClientSender:
        link = session.attach_sender(
            name,
            Source(address=name),
            Target(address=address) if isinstance(address, str) else address,
            SENDER_SETTLED if settled else SENDER_UNSETTLED,
            0,
            properties,
        )
        return ClientSender(self, link, settled)

    async def _finish(self, link: ClientLink, timeout_seconds: float) -> None:
        """Wait for the peer's answer to an attach."""
        self._links.add(link)
        self.flush()
        async with asyncio.timeout(timeout_seconds):
            await link.attached()

    async def _requester(self, address: str, timeout_seconds: float) -> Requester:
        async with self._requester_mutex:
            found = self._requesters.get(address)
            if found is None or not found.usable:
                found = await self._new_requester(address, timeout_seconds)
                self._requesters[address] = found
            return found

    async def _new_requester(self, address: str, timeout_seconds: float) -> Requester:
        session = self._begin()
        name = self._new_name("request")
        sender = self._make_sender(session, name, address, False, None)
        link = session.attach_receiver(
            name, Source(address=address), Target(address=name), SENDER_SETTLED
        )
        responses = ReplyLink(self, link)
        await self._finish(sender, timeout_seconds)
        await self._finish(responses, timeout_seconds)
        return Requester(sender, responses, name)
