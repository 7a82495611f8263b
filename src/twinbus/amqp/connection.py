"""One AMQP 1.0 connection without a socket, in either role.

The shell passes bytes to `receive_data` and handles the returned events, writes what
`data_to_send` returns, and calls `tick` at `next_deadline`. Input of the peer never
raises: a violation becomes an event, and a close or end frame with the error.
Exceptions mean that our own side misused the engine.

The server answers open, begin, end, detach and close itself; the shell accepts or
refuses links. Frames for a session that has ended are dropped, because clients send
them. `now` is any monotonic clock in milliseconds.
"""

from enum import Enum, auto
from typing import Final, final

from twinbus.amqp.assembly import SESSION_BYTES, Budget
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.errors import (
    CONNECTION_FORCED,
    INVALID_FIELD,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    AmqpError,
    FramingError,
    LocalError,
    ProtocolError,
    SessionError,
)
from twinbus.amqp.events import (
    ConnectionClosed,
    ConnectionOpened,
    Event,
    SessionBegun,
)
from twinbus.amqp.fastpath import ABSENT
from twinbus.amqp.framing import (
    AMQP_FRAME,
    EMPTY_FRAME,
    FRAME_HEADER,
    HEADER_SIZE,
    MIN_MAX_FRAME_SIZE,
    Outbox,
)
from twinbus.amqp.handshake import ClientHandshake, Handshake, ServerHandshake
from twinbus.amqp.performatives import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    TRANSFER,
    Begin,
    Close,
    End,
    Open,
    decode_performative,
    error_of,
    read_descriptor,
)
from twinbus.amqp.sasl import SERVER_MECHANISMS, SaslCredentials
from twinbus.amqp.session import AmqpSession
from twinbus.amqp.state import CONNECTION, ConnectionState, ConnectionStep
from twinbus.amqp.timers import Timers

# Enough for all links of a busy client; it limits what one peer can make us keep.
DEFAULT_LINK_LIMIT: Final = 5000

# More than one delivery of the largest size of Service Bus (100 MB).
DEFAULT_LIMIT_BYTES: Final = 128 * 1024 * 1024

# A frame counts once more for each 512 bytes: processing a message takes longer if it
# is larger, for example because filters read its properties.
_LARGE_SHIFT: Final = 9

_NO_LIMIT: Final = 1 << 40


class Role(Enum):
    SERVER = auto()
    CLIENT = auto()


@final
class Connection:
    def __init__(
        self,
        role: Role,
        container_id: str,
        *,
        hostname: str | None = None,
        max_frame_size: int = 65536,
        channel_max: int = 4999,
        handle_max: int = 4095,
        idle_timeout_ms: int = 240_000,
        properties: dict[object, object] | None = None,
        sasl_mechanisms: tuple[str, ...] = SERVER_MECHANISMS,
        require_sasl: bool = True,
        sasl: SaslCredentials | None = None,
        incoming_window: int = 5000,
        link_limit: int = DEFAULT_LINK_LIMIT,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        frames_at_a_time: int = 0,
    ) -> None:
        self.role: Role = role
        self.state: ConnectionState = ConnectionState.START
        # True once nothing more is read; the shell flushes and closes.
        self.closed: bool = False
        # Received frames wait for a call of `go_on`.
        self.has_more: bool = False
        # Frames processed by one call; large ones count several times; 0: no limit.
        self._frames_at_a_time: int = frames_at_a_time
        # Live and ending sessions, by the peer's channel.
        self.sessions: dict[int, AmqpSession] = {}
        self.max_frame_size: int = max_frame_size
        self._open: Open = Open(
            container_id=container_id,
            hostname=hostname,
            max_frame_size=max_frame_size,
            channel_max=channel_max,
            idle_time_out=idle_timeout_ms or None,
            properties=properties,
        )
        self._handle_max: int = handle_max
        self._incoming_window: int = incoming_window
        self._outbox: Outbox = Outbox()
        self._budget: Budget = Budget(limit_bytes, link_limit)
        self._by_local_channel: dict[int, AmqpSession] = {}
        # Channels of ended sessions: late frames for them are not an error.
        self._ended_channels: set[int] = set()
        self._peer_channel_max: int = 65535
        # Bytes of an incomplete frame, and how many are needed to continue.
        self._partial: bytearray = bytearray()
        self._needed: int = 0
        # Data that `go_on` processes next, and the position in it. The data is not cut:
        # copying the rest of a large read for each portion would cost more than
        # parsing.
        self._rest: bytes = b""
        self._rest_at: int = 0
        self._timers: Timers = Timers(idle_timeout_ms)
        self._handshake: Handshake
        if role is Role.SERVER:
            self._handshake = ServerHandshake(
                max_frame_size, sasl_mechanisms, require_sasl
            )
        else:
            self._handshake = ClientHandshake(max_frame_size, sasl, hostname)
            self._send_step(ConnectionStep.SEND_HEADER)

    def receive_data(self, data: bytes, now: int) -> list[Event]:
        """Process bytes from the peer and return their events.

        If there are many frames, the events come in portions: see `has_more`.
        """
        events: list[Event] = []
        if self.closed:
            return events
        if self.has_more:
            self.receive_later(data, now)
            return self.go_on()
        self._timers.received(now)
        if self._partial:
            self._partial += data
            if len(self._partial) < self._needed:
                return events
            data = bytes(self._partial)
            self._partial.clear()
        self._parse(data, 0, events)
        return events

    def receive_later(self, data: bytes, now: int) -> None:
        """Keep bytes from the peer for the next call of `go_on`."""
        if self.closed:
            return
        self._timers.received(now)
        if self._partial:
            data = bytes(self._partial) + data
            self._partial.clear()
        elif self.has_more:
            data = self._rest[self._rest_at :] + data
        self._leave(data, 0)

    def go_on(self) -> list[Event]:
        """Process more of the frames that were received already."""
        events: list[Event] = []
        data, at = self._rest, self._rest_at
        self._forget_rest()
        if not self.closed:
            self._parse(data, at, events)
        return events

    def _leave(self, data: bytes, at: int) -> None:
        """Leave the data from `at` on to the next portion."""
        self._rest, self._rest_at, self.has_more = data, at, True

    def _forget_rest(self) -> None:
        self._rest, self._rest_at, self.has_more = b"", 0, False

    def held_bytes(self) -> int:
        """Bytes kept for the peer now: unprocessed data, an incomplete frame, and what
        counts against the budget."""
        unread = len(self._rest) - self._rest_at
        return self._budget.held_bytes + len(self._partial) + unread

    def limit_held(self, limit_bytes: int) -> None:
        """Change the limit of the bytes kept for the peer."""
        self._budget.limit_bytes = limit_bytes

    def data_to_send(self) -> bytes:
        """Everything to write now."""
        data = b"".join(self._handshake.output)
        self._handshake.output.clear()
        if self._may_write_frames():
            data = data + self._outbox.take() if data else self._outbox.take()
        if data:
            self._timers.sent()
        return data

    def eof(self) -> list[Event]:
        """The transport was closed."""
        if self.closed:
            return []
        self._stop()
        text = "the transport was closed without a close frame"
        return [ConnectionClosed(AmqpError(CONNECTION_FORCED, text))]

    def tick(self, now: int) -> list[Event]:
        """Do what is due: send a heartbeat, or give up a silent peer."""
        if self.closed:
            return []
        timers = self._timers
        timers.start(now)
        if timers.heartbeat_due(now) and not self._outbox.pieces:
            self._outbox.pieces.append(EMPTY_FRAME)
        if not timers.idle_due(now):
            return []
        events: list[Event] = []
        text = f"nothing was received for {timers.idle_timeout_ms} ms"
        self._fail(AmqpError(RESOURCE_LIMIT_EXCEEDED, text), events)
        return events

    def next_deadline(self) -> int | None:
        """When `tick` should be called next; None: never."""
        return None if self.closed else self._timers.next_deadline()

    def sasl_outcome(self, ok: bool) -> list[Event]:
        """Answer SaslInitReceived.

        Returns the events of bytes that arrived after the init.
        """
        handshake = self._handshake
        if not isinstance(handshake, ServerHandshake) or not handshake.awaits_outcome:
            raise LocalError("no SASL init waits for an outcome")
        events: list[Event] = []
        handshake.outcome(ok)
        if not ok:
            self._stop()
            text = "SASL authentication failed"
            events.append(ConnectionClosed(AmqpError(UNAUTHORIZED_ACCESS, text)))
        elif self._partial:
            data = bytes(self._partial)
            self._partial.clear()
            self._parse(data, 0, events)
        return events

    def open(self) -> None:
        """Client: send our open. A server answers the client's open itself."""
        self._send_step(ConnectionStep.SEND_OPEN)
        self._outbox.write(0, encode_composite(self._open))

    def begin(self) -> AmqpSession:
        """Client: start a session; SessionBegun confirms it."""
        if self.state not in (
            ConnectionState.OPEN_PIPE,
            ConnectionState.OPEN_SENT,
            ConnectionState.OPENED,
        ):
            raise LocalError("a session needs an open connection")
        channel = self._free_channel()
        if channel > self._peer_channel_max:
            raise LocalError(f"the peer allows channels up to {self._peer_channel_max}")
        session = self._new_session(channel)
        session.begin()
        return session

    def close(self, error: AmqpError | None = None) -> None:
        """Send a close; ConnectionClosed follows when the peer has answered."""
        following = CONNECTION.get((self.state, ConnectionStep.SEND_CLOSE))
        if following is None or self.closed:
            return
        self.state = following
        self._stop_sessions()
        self._outbox.write(0, encode_composite(Close(error=error)))

    def _parse(self, data: bytes, at: int, events: list[Event]) -> None:
        try:
            while not self._handshake.done and not self.closed:
                used = self._handshake.advance(data, at, events)
                if used == 0:
                    self._keep(data, at, 1)
                    return
                at += used
                if self._handshake.done:
                    self._headers_exchanged()
            self._parse_frames(data, at, events)
        except ProtocolError as error:
            self._fail(error.error, events)

    def _parse_frames(self, buf: bytes, at: int, events: list[Event]) -> None:
        total = len(buf)
        limit = self.max_frame_size
        left = self._frames_at_a_time or _NO_LIMIT
        while total - at >= HEADER_SIZE:
            size, offset, kind, channel = FRAME_HEADER.unpack_from(buf, at)
            body = at + offset * 4
            end = at + size
            if size > limit or offset < 2 or body > end or kind != AMQP_FRAME:
                raise FramingError(
                    f"a frame of {size} bytes, type {kind} and data offset {offset}"
                    f" where at most {limit} bytes of type 0 are allowed"
                )
            if end > total:
                self._keep(buf, at, size)
                return
            at = end
            if body == end:
                continue
            self._on_frame(buf, body, end, channel, events)
            if self.closed:
                return
            left -= 1 + (size >> _LARGE_SHIFT)
            if left <= 0 and at < total:
                self._leave(buf, at)
                return
        if at < total:
            self._keep(buf, at, HEADER_SIZE)

    def _keep(self, buf: bytes, at: int, needed: int) -> None:
        """Keep the bytes from `at` on until the needed number has arrived."""
        self._partial = bytearray(buf[at:])
        self._needed = needed

    def _on_frame(
        self, buf: bytes, at: int, end: int, channel: int, events: list[Event]
    ) -> None:
        if end - at >= 4 and buf[at] == 0 and buf[at + 1] == 0x53:
            code = buf[at + 2]
            at += 3
        else:
            code, size = read_descriptor(buf[at:end], 0)
            at += size
        session = self.sessions.get(channel)
        if session is None or not session.live or code == CLOSE:
            self._on_control_frame(code, buf[at:end], channel, events)
            return
        try:
            if code == TRANSFER:
                session.on_transfer(buf, at, end, events)
            elif code == DISPOSITION:
                session.on_disposition(buf, at, end, events)
            elif code == FLOW:
                session.on_flow(buf, at, end, events)
            elif code == ATTACH:
                session.on_attach(buf[at:end], events)
            elif code == DETACH:
                session.on_detach(buf[at:end], events)
            elif code == END:
                self._on_end(session, buf[at:end], events)
            else:
                raise ProtocolError(NOT_ALLOWED, f"unexpected performative {code:#04x}")
        except SessionError as error:
            session.fail(error.error, events)

    def _on_control_frame(
        self, code: int, body: bytes, channel: int, events: list[Event]
    ) -> None:
        """A frame that is not for a live session."""
        session = self.sessions.get(channel)
        if code == CLOSE:
            self._on_close(body, events)
        elif self.state is ConnectionState.CLOSE_SENT:
            # After our close only the peer's close is processed.
            return
        elif code == OPEN:
            self._on_open(body, events)
        elif self.state is not ConnectionState.OPENED:
            raise ProtocolError(NOT_ALLOWED, "an open was expected")
        elif session is not None:
            if code == END:
                self._on_end(session, body, events)
        elif code == BEGIN:
            self._on_begin(body, channel, events)
        elif channel not in self._ended_channels:
            raise ProtocolError(NOT_ALLOWED, f"channel {channel} has no session")

    def _headers_exchanged(self) -> None:
        self._receive_step(ConnectionStep.RECEIVE_HEADER)
        if self.role is Role.SERVER:
            self._send_step(ConnectionStep.SEND_HEADER)

    def _on_open(self, body: bytes, events: list[Event]) -> None:
        value = decode_performative(OPEN, body)
        assert isinstance(value, Open)
        if value.max_frame_size < MIN_MAX_FRAME_SIZE:
            raise ProtocolError(INVALID_FIELD, "max-frame-size is below 512")
        self._receive_step(ConnectionStep.RECEIVE_OPEN)
        self._outbox.max_frame_size = value.max_frame_size
        self._peer_channel_max = value.channel_max
        self._timers.peer_timeout(value.idle_time_out or 0)
        if self.state is ConnectionState.OPEN_RCVD:
            self.open()
        if self.state is ConnectionState.OPENED:
            events.append(
                ConnectionOpened(
                    value.container_id, value.hostname, value.properties or {}
                )
            )

    def _on_begin(self, body: bytes, channel: int, events: list[Event]) -> None:
        begin = decode_performative(BEGIN, body)
        assert isinstance(begin, Begin)
        if channel > self._open.channel_max:
            raise FramingError(f"channel {channel} is above {self._open.channel_max}")
        if begin.remote_channel is None:
            taken = channel in self._by_local_channel
            local = self._free_channel() if taken else channel
            if local > self._peer_channel_max:
                raise ProtocolError(NOT_ALLOWED, "the peer's channel-max is used up")
            session = self._new_session(local)
            session.on_begin(begin, channel)
            session.begin()
        else:
            found = self._by_local_channel.get(begin.remote_channel)
            if found is None or found.remote_channel != ABSENT:
                raise ProtocolError(NOT_ALLOWED, "a begin does not answer one of ours")
            session = found
            session.on_begin(begin, channel)
        self.sessions[channel] = session
        self._ended_channels.discard(channel)
        if session.live:
            events.append(SessionBegun(session))

    def _on_end(self, session: AmqpSession, body: bytes, events: list[Event]) -> None:
        end = decode_performative(END, body)
        assert isinstance(end, End)
        session.on_end(end, events)
        del self.sessions[session.remote_channel]
        del self._by_local_channel[session.channel]
        self._ended_channels.add(session.remote_channel)
        self._budget.link_count -= len(session.links)
        self._budget.release(SESSION_BYTES)
        for link in session.links.values():
            self._budget.release(link.held_bytes)

    def _on_close(self, body: bytes, events: list[Event]) -> None:
        close = decode_performative(CLOSE, body)
        assert isinstance(close, Close)
        self._receive_step(ConnectionStep.RECEIVE_CLOSE)
        self.close()
        self._stop()
        events.append(ConnectionClosed(error_of(close.error)))

    def _may_write_frames(self) -> bool:
        handshake = self._handshake
        if isinstance(handshake, ClientHandshake):
            return handshake.amqp_header_sent
        return handshake.done

    def _send_step(self, step: ConnectionStep) -> None:
        following = CONNECTION.get((self.state, step))
        if following is None:
            raise LocalError(f"{step.name} is not possible in {self.state.name}")
        self.state = following

    def _receive_step(self, step: ConnectionStep) -> None:
        following = CONNECTION.get((self.state, step))
        if following is None:
            text = f"{step.name} is not possible in {self.state.name}"
            raise ProtocolError(NOT_ALLOWED, text)
        self.state = following

    def _free_channel(self) -> int:
        channel = 0
        while channel in self._by_local_channel:
            channel += 1
        return channel

    def _new_session(self, channel: int) -> AmqpSession:
        self._budget.hold(SESSION_BYTES)
        session = AmqpSession(
            channel,
            self._outbox,
            self._budget,
            self._incoming_window,
            self._handle_max,
        )
        self._by_local_channel[channel] = session
        return session

    def _fail(self, error: AmqpError, events: list[Event]) -> None:
        """Stop, and send a close frame with the error if the state allows it."""
        if self.state in (ConnectionState.HDR_EXCH, ConnectionState.OPEN_RCVD):
            self.open()
        self.close(error)
        self._stop()
        events.append(ConnectionClosed(error))

    def _stop(self) -> None:
        self.closed = True
        self._forget_rest()
        self._partial.clear()
        self._stop_sessions()
        # All memory is freed with the connection.
        self._budget.held_bytes = 0

    def _stop_sessions(self) -> None:
        for session in self._by_local_channel.values():
            session.stop()
