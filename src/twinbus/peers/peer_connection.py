"""The connection to another broker: an asyncio protocol around the engine.

It is opened when the first link needs it, and again after it has ended, with pauses
that grow while that fails. All links to that broker share it, each with an AMQP session
of its own. When it ends, so do they.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final, cast

from twinbus.amqp.connection import Connection, Role
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
)
from twinbus.amqp.link import Link
from twinbus.amqp.sasl import plain
from twinbus.clock import Clock
from twinbus.errors import ServerBusy
from twinbus.links.output import Output, Outputs
from twinbus.links.refusal import amqp_error
from twinbus.peers.peer_properties import KEY_NAME, host_for
from twinbus.peers.reach import PeerReach

if TYPE_CHECKING:
    from twinbus.peers.relay import PeerLink

_log = logging.getLogger(__name__)

IDLE_TIMEOUT_MS: Final = 6_000
"""A broker that is silent for so long has ended or is frozen: as long as a term."""

_CONNECT_SECONDS: Final = 3.0
_FIRST_PAUSE_MS: Final = 100
_LONGEST_PAUSE_MS: Final = 2_000

PEER_LINKS: Final = 20_000
"""Links, and so AMQP sessions, between two brokers in one direction."""

_WRITE_BUFFER_BYTES: Final = 4 * 1024 * 1024


class PeerConnection(asyncio.Protocol):
    """The way from this broker to another one."""

    def __init__(
        self,
        address: str,
        key: str,
        clock: Clock,
        outputs: Outputs,
        reach: PeerReach,
        namespace: str = "",
    ) -> None:
        """`namespace`: which one all its links are for; empty: the default one."""
        self.address = address
        self._namespace = namespace
        self._key = key
        self._reach = reach
        self._clock = clock
        self._outputs = outputs
        self.output = Output(outputs, self.flush)
        # None while there is no connection.
        self._engine: Connection | None = None
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_open = False
        # All links, attached or waiting for the connection.
        self._links: dict[PeerLink, None] = {}
        # After a failure: how long, and until when, it is not tried again.
        self._pause_ms = 0
        self._paused_until = 0

    # --- for links ------------------------------------------------------------

    def attach(self, link: "PeerLink") -> None:
        """Attach it, now or when the connection is open; it is told if that fails."""
        self._links[link] = None
        if self._is_open:
            self._begin(link)
        elif self._connecting is None and self._engine is None:
            self._connect()

    def left(self, link: "PeerLink") -> None:
        self._links.pop(link, None)
        self.output.mark()

    def _begin(self, link: "PeerLink") -> None:
        assert self._engine is not None
        link.begin(self._engine.begin())
        self.output.mark()

    # --- connecting -----------------------------------------------------------

    def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        if self._clock.monotonic() < self._paused_until:
            loop.call_soon(self._fail, "it did not answer a moment ago")
            return
        self._connecting = loop.create_task(self._open(), name=f"to {self.address}")

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await self._reach(self.address, lambda: self)
        except TimeoutError:
            self._fail("it did not answer in time")
        except OSError as error:
            self._fail(str(error))
        finally:
            self._connecting = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self.output.is_writable = True
        self._engine = Connection(
            Role.CLIENT,
            "twinbus-broker",
            hostname=host_for(self._namespace, self.address),
            channel_max=PEER_LINKS - 1,
            idle_timeout_ms=IDLE_TIMEOUT_MS,
            link_limit=PEER_LINKS,
            sasl=plain(KEY_NAME, self._key),
        )
        self._engine.open()
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._fail("the connection has ended" if error is None else str(error))

    def _fail(self, reason: str) -> None:
        """Everything that waits on the connection has failed."""
        if self._is_open:
            _log.warning("the connection to broker %s is lost: %s", *_of(self, reason))
        if not self._is_open and self._clock.monotonic() >= self._paused_until:
            self._pause_ms = min(
                max(2 * self._pause_ms, _FIRST_PAUSE_MS), _LONGEST_PAUSE_MS
            )
            self._paused_until = self._clock.monotonic() + self._pause_ms
            _log.info("broker %s cannot be reached: %s", *_of(self, reason))
        self._is_open = False
        self._engine = None
        links, self._links = list(self._links), {}
        if links:
            error = amqp_error(
                ServerBusy(
                    "The broker that has the entity cannot be reached. Try again: "
                    "another one takes over."
                )
            )
            for link in links:
                link.on_peer_lost(error)
        self._outputs.flush()

    # --- reading --------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._engine is not None:
            self._react(self._engine.receive_data(data, self._clock.monotonic()))
        self.output.mark()
        self._outputs.flush()

    def _react(self, events: list[Event]) -> None:
        # Those that got messages.
        served: dict[PeerLink, None] = {}
        for event in events:
            if isinstance(event, MessageReceived):
                link = cast("PeerLink | None", event.link.context)
                if link is not None:
                    link.on_peer_message(event)
                    served[link] = None
            elif isinstance(event, DispositionReceived):
                link = cast("PeerLink | None", event.session.context)
                if link is not None:
                    link.on_peer_disposition(event)
            elif isinstance(event, LinkFlow):
                self._on_flow(event.link)
            else:
                self._on_rare_event(event)
        for link in served:
            link.on_peer_read()

    def _on_flow(self, link: Link) -> None:
        if link.context is not None:
            cast("PeerLink", link.context).on_peer_flow(link)

    def _on_rare_event(self, event: Event) -> None:
        if isinstance(event, LinkAttached):
            if event.link.context is not None:
                cast("PeerLink", event.link.context).on_peer_attached(event.link)
        elif isinstance(event, LinkDetached):
            self._lose(event.link.context, event.error)
        elif isinstance(event, SessionEnded):
            self._lose(event.session.context, event.error)
        elif isinstance(event, ConnectionOpened):
            self._is_open = True
            self._pause_ms = self._paused_until = 0
            for link in list(self._links):
                self._begin(link)
        elif isinstance(event, ConnectionClosed):
            if self._transport is not None:
                self.flush()
                self._transport.abort()

    def _lose(self, link: object, error: AmqpError | None) -> None:
        if link is not None:
            gone = AmqpError("amqp:link:detach-forced", "The owner ended the link.")
            cast("PeerLink", link).on_peer_lost(error or gone)

    # --- writing --------------------------------------------------------------

    def flush(self) -> None:
        engine, transport = self._engine, self._transport
        if engine is None or transport is None or transport.is_closing():
            return
        data = engine.data_to_send()
        if data:
            transport.write(data)

    def pause_writing(self) -> None:
        self.output.is_writable = False

    def resume_writing(self) -> None:
        self.output.is_writable = True
        for link in list(self._links):
            if link.peer is not None:
                link.on_peer_writable(link.peer)
        self._outputs.flush()

    # --- life -----------------------------------------------------------------

    def tick(self, monotonic: int) -> None:
        """Send heartbeats; give up a broker that is silent."""
        if self._engine is not None:
            self._react(self._engine.tick(monotonic))
            self.output.mark()

    def close(self) -> None:
        """The server stops."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()


def _of(connection: PeerConnection, reason: str) -> tuple[str, str]:
    return connection.address, reason
