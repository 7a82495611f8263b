"""One HTTP connection: it reads requests, one at a time, and writes responses.

h11 parses and frames. This file has the rest: the socket, limits of size and time, and
handling of misbehaving peers. While a request is processed nothing is read, so
pipelined requests wait, and a client that does not read its responses is not read
either. While a request waits for a message, a little is read on, to notice that the
client goes. Memory held for a client is counted together with that of all others.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol, cast

import h11

from twinbus.clock import Clock
from twinbus.doors.arrived_at import ArrivedAt, arrived_at
from twinbus.doors.http.held_bytes import HeldBytes
from twinbus.doors.http.keep_alive import KeepAlive
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.doors.visitor import Visitor, Visits
from twinbus.errors import ServiceBusError
from twinbus.limits import (
    ENTITY_REQUEST_BYTES,
    HTTP_HEADER_BYTES,
    HTTP_KEEP_ALIVE_SECONDS,
    HTTP_STRANGER_SECONDS,
    STRANGER_WRITE_BUFFER_BYTES,
)

_log = logging.getLogger(__name__)

_CLOSING_MS: Final = 2_000
"""How long a peer may take to read the last response and close."""

_JOINED_BYTES: Final = 16 * 1024
"""A body of up to this size is written together with the head: one system call. To join
a larger one would be a copy of megabytes."""

_WITHOUT_BODY: Final = (204, 304)

_EVENTS_AT_A_TIME: Final = 100
"""Parts of a request that are processed between two looks at the clock: a read of
chunks of one byte has forty thousand."""


class Responder(Protocol):
    """Processes the requests."""

    def shows_key(self, request: HttpRequest) -> bool:
        """Whether the headers prove that the client has a key. A wrong one counts as an
        attempt, whatever becomes of the request: the client can tell from its
        connection if it was the right one."""
        ...

    def max_body_bytes(self, request: HttpRequest) -> int:
        """The limit for the body; `request` has no body yet."""
        ...

    def too_large(self, request: HttpRequest, text: str) -> HttpResponse:
        """The response to a request whose body is larger; nothing more is read."""
        ...

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Raises only in case of a bug."""
        ...


class Upgrades(Protocol):
    """Where a connection changes to another protocol."""

    def is_meant_by(self, request: HttpRequest) -> bool: ...

    def answer(self, request: HttpRequest) -> HttpResponse:
        """With the status 101 the connection changes, with any other it does not."""
        ...

    def successor(self, request: HttpRequest) -> asyncio.Protocol:
        """What serves the connection from then on."""
        ...


class StrangersShare(Protocol):
    """Memory held for all clients that have shown no key."""

    def hold(self, holder: "HttpConnection", size: int) -> None:
        """Set the memory held for this connection; the largest one may be closed."""
        ...


class LoopShares(Protocol):
    """Shares of the loop's time."""

    def is_over(self) -> bool:
        """Long work has to wait for the next turn."""
        ...

    def wait(self, go_on: Callable[[], None]) -> None:
        """Have this called in a later turn."""
        ...


class HttpHome(Protocol):
    """The server, as its HTTP connections see it."""

    clock: Clock
    # How long a client may take to send a request.
    handshake_ms: int
    # Of clients with a key, and of all others.
    held: HeldBytes

    # Counts the wrong keys of peers.
    visits: Visits

    @property
    def turns(self) -> LoopShares: ...

    @property
    def strangers_held(self) -> StrangersShare: ...

    @property
    def gateway(self) -> Responder: ...

    def joined(self, connection: "HttpConnection") -> None: ...

    def recognized(self, connection: "HttpConnection") -> None:
        """The client has shown a key."""
        ...

    def left(self, connection: "HttpConnection") -> None: ...


class HttpConnection(asyncio.Protocol):
    """The asyncio protocol of one client's connection."""

    def __init__(
        self,
        home: HttpHome,
        gateway: Responder | None = None,
        upgrades: Upgrades | None = None,
    ) -> None:
        """`gateway`: in place of the home's."""
        self._home = home
        self._upgrades = upgrades
        self._gateway = gateway or home.gateway
        self._engine = h11.Connection(
            h11.SERVER, max_incomplete_event_size=HTTP_HEADER_BYTES
        )
        self._transport: asyncio.Transport | None = None
        # No request has shown a key yet.
        self._is_stranger = True
        self._started_at = home.clock.monotonic()
        # The request whose body is being read, and the body so far.
        self._request: HttpRequest | None = None
        # The answer to the present request, whatever it says, has no body.
        self._is_head = False
        self._body = bytearray()
        self._body_limit = 0
        # The size of the last response that was written.
        self._response_bytes = 0
        # Its part of the memory held by the server.
        self._held_bytes = 0
        # Counts the wrong keys of the peer.
        self._visitor = Visitor()
        self._arrived = ArrivedAt()
        # What requests keep for later ones, and whether one waits.
        self._keep_alive = KeepAlive(self._read_or_not)
        # At most one: the request being processed.
        self.requests: set[asyncio.Task[None]] = set()
        # Deadline for the peer's next step; 0 if the next step is ours.
        self._due_at = self._started_at + home.handshake_ms
        # Nothing more is processed; input is discarded.
        self._is_ending = False
        self._is_writable = True
        self._is_held_back = False
        # Received data waits for its turn.
        self._is_waiting = False

    # --- asyncio --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=STRANGER_WRITE_BUFFER_BYTES)
        peername = transport.get_extra_info("peername")
        self._visitor = Visitor(self._home.visits, peername)
        self._arrived = arrived_at(transport)
        self._home.joined(self)

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        if self._engine.their_state is h11.IDLE and not self._engine.trailing_data[0]:
            self._due_in(self._home.handshake_ms)
        self._engine.receive_data(data)
        self._advance()
        self._hold_half_request()

    def eof_received(self) -> bool:
        """A client may close its side and wait for the response, but not for a message:
        that is how it looks, too, if its process has ended."""
        if self._keep_alive.is_waiting:
            self._give_up()
            return False
        self._keep_alive.is_half_closed = True
        if not self._is_ending:
            self._engine.receive_data(b"")
            self._advance()
        # TLS has no half of an end, and says in the log that it was asked for one.
        is_answered = bool(self.requests) or self._is_waiting
        return is_answered and not self._is_secure()

    def connection_lost(self, error: Exception | None) -> None:
        # A change in progress continues without a response; no other is started.
        self._is_ending = True
        self._transport = None
        if self._keep_alive.is_waiting:
            self._give_up()
        self._keep_alive.close()
        self._hold(0)
        self._home.left(self)

    def pause_writing(self) -> None:
        self._is_writable = False
        if self._transport is not None:
            unsent = self._transport.get_write_buffer_size()
            # Of a response that was sent in part, all is in memory.
            self._hold(max(unsent, self._response_bytes))

    def resume_writing(self) -> None:
        self._is_writable = True
        self._hold(0)
        self._advance()

    def _give_up(self) -> None:
        """The client has gone while its request waits."""
        self._is_ending = True
        for request in self.requests:
            request.cancel()

    # --- reading --------------------------------------------------------------

    def _advance(self) -> None:
        """Process received data as far as possible, until the turn is over."""
        event_count = 0
        while self._may_go_on():
            event_count += 1
            if event_count % _EVENTS_AT_A_TIME == 0 and self._home.turns.is_over():
                self._is_waiting = True
                self._home.turns.wait(self._go_on)
                break
            try:
                event = self._engine.next_event()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint, f"Bad request: {error}.")
                break
            if event is h11.NEED_DATA or event is h11.PAUSED:
                self._continue_if_asked()
                break
            self._on_event(event)
        self._read_or_not()

    def _may_go_on(self) -> bool:
        is_busy = bool(self.requests) or self._is_waiting
        return not is_busy and self._is_writable and not self._is_ending

    def _go_on(self) -> None:
        """The turn has come."""
        self._is_waiting = False
        self._advance()
        self._hold_half_request()

    def _on_event(self, event: object) -> None:
        if isinstance(event, h11.Request):
            self._begin(event)
        elif isinstance(event, h11.Data):
            self._body += event.data
            self._check_length(len(self._body))
            self._check_room()
        elif isinstance(event, h11.EndOfMessage):
            assert self._request is not None
            if self._upgrades is not None and self._upgrades.is_meant_by(self._request):
                self._upgrade(self._upgrades)
            else:
                self._answer_request()
        elif isinstance(event, h11.ConnectionClosed):
            self._end()

    def _is_secure(self) -> bool:
        transport = self._transport
        return (
            transport is not None and transport.get_extra_info("ssl_object") is not None
        )

    def _begin(self, event: h11.Request) -> None:
        headers: dict[str, str] = {}
        names: dict[str, str] = {}
        for raw_name, raw_value in event.headers.raw_items():
            written, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
            name = written.lower()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
            names[name] = written
        self._is_head = event.method == b"HEAD"
        self._request = HttpRequest(
            method=event.method.decode("ascii"),
            target=event.target.decode("ascii"),
            headers=headers,
            is_secure=self._is_secure(),
            names=names,
            connection=self._keep_alive,
            visitor=self._visitor,
            arrived=self._arrived,
        )
        if self._is_stranger and self._gateway.shows_key(self._request):
            self._recognized()
        self._body.clear()
        self._body_limit = self._gateway.max_body_bytes(self._request)
        if (
            sum(map(len, (event.target, *headers, *headers.values())))
            > HTTP_HEADER_BYTES
        ):
            # h11 looks at this only while a part of them is missing.
            self._refuse(431, f"The headers may have {HTTP_HEADER_BYTES} bytes.")
            return
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may use the other header, and see another request (RFC 9112 6.1).
            self._refuse(400, "Content-Length and Transfer-Encoding: send only one.")
            return
        # h11 has checked that it is a number, if it is present.
        self._check_length(int(headers.get("content-length", "0")))

    def _recognized(self) -> None:
        """A key was shown: from now on it counts with the clients that have one."""
        held = self._held_bytes
        self._hold(0)
        self._is_stranger = False
        self._hold(held)
        self._home.recognized(self)

    def _check_length(self, length: int) -> None:
        if length > self._body_limit and not self._is_ending:
            assert self._request is not None
            text = (
                f"The body of this request may have {self._body_limit} bytes; it has "
                f"{length} or more."
            )
            self._refuse_with(self._gateway.too_large(self._request, text))

    def _check_room(self) -> None:
        """Accept a large body only while there is memory for it."""
        if self._is_ending:
            return
        self._hold(len(self._body))
        if len(self._body) > ENTITY_REQUEST_BYTES and self._home.held.is_full:
            self._body.clear()
            self._refuse(503, self._home.held.text)

    def _hold(self, size: int) -> None:
        if self._is_stranger:
            self._home.strangers_held.hold(self, size)
        else:
            self._home.held.held += size - self._held_bytes
        self._held_bytes = size

    def _hold_half_request(self) -> None:
        """Without a key every byte is counted: there may be thousands of clients."""
        if self._is_stranger and self._is_writable and not self._is_ending:
            asked = self._held_bytes if self.requests else len(self._body)
            self._hold(asked + len(self._engine.trailing_data[0]))

    def _continue_if_asked(self) -> None:
        if self._engine.they_are_waiting_for_100_continue:
            self._write(
                self._engine.send(
                    h11.InformationalResponse(status_code=100, headers=[])
                )
            )

    def _read_or_not(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        is_busy = bool(self.requests) and not self._looks_on()
        is_busy = is_busy or self._is_waiting
        is_busy = is_busy or not self._is_writable or self._is_held_back
        if is_busy and not self._is_ending:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _looks_on(self) -> bool:
        """The request waits: see whether the client goes. Of the next requests no more
        is read than the headers of one."""
        unread_bytes = len(self._engine.trailing_data[0])
        return self._keep_alive.is_waiting and unread_bytes < HTTP_HEADER_BYTES

    # --- answering ------------------------------------------------------------

    def _answer_request(self) -> None:
        read, self._request = self._request, None
        assert read is not None
        request = HttpRequest(
            method=read.method,
            target=read.target,
            headers=read.headers,
            body=bytes(self._body),
            is_secure=read.is_secure,
            names=read.names,
            connection=read.connection,
            visitor=read.visitor,
            arrived=read.arrived,
            is_of_stranger=self._is_stranger,
        )
        self._body.clear()
        self._due_at = 0
        task = asyncio.get_running_loop().create_task(self._answer(request))
        self.requests.add(task)

    def _upgrade(self, upgrades: Upgrades) -> None:
        """Leave the connection to another protocol, or refuse to."""
        request, self._request = self._request, None
        assert request is not None
        response, transport = upgrades.answer(request), self._transport
        if response.status != HTTPStatus.SWITCHING_PROTOCOLS:
            self._respond(response)
            return
        assert transport is not None
        switching = h11.InformationalResponse(
            status_code=response.status,
            headers=list(response.headers.items()),
            reason=HTTPStatus.SWITCHING_PROTOCOLS.phrase,
        )
        self._write(self._engine.send(switching))
        unread = self._engine.trailing_data[0]
        self._is_ending = True
        self._transport = None
        self._keep_alive.close()
        self._hold(0)
        self._home.left(self)
        # It was paused while an earlier request was processed.
        transport.resume_reading()
        successor = upgrades.successor(request)
        transport.set_protocol(successor)
        successor.connection_made(transport)
        if unread:
            successor.data_received(unread)

    async def _answer(self, request: HttpRequest) -> None:
        try:
            response = await self._gateway.answer(request)
        except asyncio.CancelledError:
            # The client has gone, or the server stops.
            self.requests.clear()
            if self._keep_alive.is_half_closed and self._transport is not None:
                self._is_ending = True
                self._transport.close()
            raise
        except Exception:
            _log.exception("a bug answered %s %s", request.method, request.path)
            response = text_response(500, "Internal error. See the server's log.")
        self.requests.clear()
        if self._transport is None:
            self._keep_alive.close()
        if self._has_lived():
            self._is_ending = True
        try:
            self._respond(response)
        except Exception:
            # No deadline ends the connection while a request is answered.
            _log.exception("a bug ends %s %s", request.method, request.path)
            self.abort()
        self._advance()

    def _has_lived(self) -> bool:
        """A client without a key has used up the lifetime of its connection."""
        age_ms = self._home.clock.monotonic() - self._started_at
        return self._is_stranger and age_ms > HTTP_STRANGER_SECONDS * 1000

    def _respond(self, response: HttpResponse) -> None:
        """Write the response, and prepare for the next request or the end."""
        has_body = not self._is_head and response.status not in _WITHOUT_BODY
        headers = [(name, value) for name, value in response.headers.items()]
        if response.status not in _WITHOUT_BODY:
            headers.append(("content-length", str(len(response.body))))
        if self._is_ending:
            headers.append(("connection", "close"))
        head = h11.Response(
            status_code=response.status,
            headers=headers,
            # Python shows the reason to its users.
            reason=HTTPStatus(response.status).phrase,
        )
        self._response_bytes = len(response.body)
        parts = [self._engine.send(head)]
        if has_body:
            parts.append(self._engine.send(h11.Data(data=response.body)))
        parts.append(self._engine.send(h11.EndOfMessage()))
        if len(response.body) <= _JOINED_BYTES:
            self._write(b"".join(part for part in parts if part))
        else:
            for part in parts:
                self._write(part)
        if self._is_writable:
            self._hold(0)
        if self._engine.our_state is h11.DONE and self._engine.their_state is h11.DONE:
            self._engine.start_next_cycle()
            self._is_head = False
            self._due_in(
                self._home.handshake_ms
                if self._is_stranger
                else HTTP_KEEP_ALIVE_SECONDS * 1000
            )
        else:
            self._end()

    def _refuse(self, status: int, text: str) -> None:
        """Answer an invalid request, and read nothing more."""
        self._refuse_with(text_response(status, text))

    def _refuse_with(self, response: HttpResponse) -> None:
        self._is_ending = True
        if self._engine.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._respond(response)
        else:
            self._end()

    def _write(self, data: bytes | None) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _end(self) -> None:
        """Send the end of the stream, and wait for the peer to close.

        If we closed at once, with unread input of the peer, the system would discard
        the last response, too.
        """
        self._is_ending = True
        self._due_in(_CLOSING_MS)
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._engine.their_state in (h11.CLOSED, h11.MUST_CLOSE, h11.DONE):
            transport.close()
        elif transport.can_write_eof():
            transport.write_eof()

    # --- interface to the server ----------------------------------------------

    def _due_in(self, milliseconds: int) -> None:
        self._due_at = self._home.clock.monotonic() + milliseconds

    def tick(self, now: int, monotonic: int) -> None:
        """Check the peer's deadlines."""
        if not self._due_at or monotonic <= self._due_at:
            return
        if self._is_ending or self._engine.their_state is h11.IDLE:
            self.abort()
        else:
            seconds = self._home.handshake_ms // 1000
            self._refuse(408, f"The request was not sent within {seconds} seconds.")

    def pause_reading(self) -> None:
        """Too much data of the process waits to become durable."""
        self._is_held_back = True
        self._read_or_not()

    def resume_reading(self) -> None:
        self._is_held_back = False
        self._read_or_not()

    def close(self, error: ServiceBusError | None, monotonic: int) -> None:
        """The server stops; all requests have been answered."""
        if self._transport is not None:
            self._transport.close()

    def described(self) -> str:
        who = "no key" if self._is_stranger else "a key"
        return (
            f"HTTP {self._visitor.name}, {who}, {len(self.requests)} requests, "
            f"{self._held_bytes} bytes held"
        )

    def cut(self, error: ServiceBusError) -> None:
        """Between two requests no error can be sent; clients connect again."""
        self.abort()

    def abort(self) -> None:
        # uvloop's transports refuse everything from here on, and do not say that they
        # are closing.
        transport, self._transport = self._transport, None
        self._is_ending = True
        if transport is not None:
            transport.abort()
