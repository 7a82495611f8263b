"""A blocking AMQP 1.0 client that shows every frame and can send any.

`Peer` is a connection: it sends performatives with the given fields, keeps all received
frames in order, and waits for one that matches. `SenderLink` and `ReceiverLink` keep
the few numbers that a link needs (credit, delivery ids): no automatic settlement, no
renewal of credit, no retries. There is one AMQP session, on channel 0.
"""

import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .codec import Described, Symbol, Ubyte, Uint, Ulong, Ushort, encode
from .frames import (
    ACCEPTED,
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    DETACH,
    DISPOSITION,
    FIELDS,
    FIRST,
    FLOW,
    OPEN,
    RECEIVER,
    REJECTED,
    SASL_HEADER,
    SASL_INIT,
    SASL_MECHANISMS,
    SASL_OUTCOME,
    SECOND,
    SENDER,
    SETTLED,
    TRANSFER,
    UNSETTLED,
    AmqpError,
    Frame,
    LinkRefused,
    error_of,
    parse_frame,
    terminus,
)
from .message import Delivery, Received

# A bound against hanging; never waited out where the bus answers.
WAIT_SECONDS = 15.0


class Peer:
    """A connection to the bus."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
        # A transfer is written in two parts (head, payload); do not wait between them.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames: list[Frame] = []
        self.links: dict[int, Any] = {}
        self.next_delivery_id = 0
        self.next_outgoing_id = 0
        self.first_incoming_id = 0
        self.window = 0
        self.max_frame_size = 512
        self._inbox: list[Frame] = []
        self._buffer = b""
        # Frames that are to go out in one write, while `together` collects them.
        self._together: list[bytes] | None = None
        self._handles = itertools.count()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.socket.close()

    # Connection

    def sasl(
        self, mechanism: str, response: bytes = b"", host: str | None = "localhost"
    ) -> int:
        """Authenticate; gives the outcome's code, 0 for success."""
        self.exchange_header(SASL_HEADER)
        self.mechanisms = list(self.expect(SASL_MECHANISMS).mechanisms)
        self.send(SASL_INIT, [Symbol(mechanism), response, host], sasl=True)
        return int(self.expect(SASL_OUTCOME).code_field)

    def sasl_plain(
        self, user: str, password: str, host: str | None = "localhost"
    ) -> int:
        """Authenticate with PLAIN."""
        return self.sasl("PLAIN", f"\0{user}\0{password}".encode(), host)

    def start(
        self,
        *,
        max_frame_size: int = 65536,
        idle_time_out: int = 0,
        host: str | None = "localhost",
    ) -> Frame:
        """Open the connection and begin the session; gives the bus's open."""
        self.exchange_header(AMQP_HEADER)
        idle = Uint(idle_time_out) if idle_time_out else None
        self.send(
            OPEN,
            ["wire-test", host, Uint(max_frame_size), Ushort(10), idle],
        )
        opened = self.expect(OPEN)
        self.max_frame_size = int(opened.max_frame_size)
        self.send(BEGIN, [None, Uint(0), Uint(1_000_000), Uint(1_000_000)])
        begun = self.expect(BEGIN)
        self.window = int(begun.incoming_window)
        self.first_incoming_id = int(begun.next_outgoing_id)
        return opened

    def exchange_header(self, header: bytes) -> None:
        """Send a protocol header and read the same one back."""
        self.socket.sendall(header)
        self.read_header(header)

    def read_header(self, header: bytes) -> None:
        """Read a protocol header, which has to be this one."""
        while len(self._buffer) < 8:
            self._read_more()
        assert self._buffer[:8] == header
        self._buffer = self._buffer[8:]
        self._take_frames()

    def send(
        self, code: int, values: list[Any], payload: bytes = b"", *, sasl: bool = False
    ) -> None:
        """Send one frame."""
        body = encode(Described(Ulong(code), values)) + payload
        head = struct.pack(">IBBH", len(body) + 8, 2, 1 if sasl else 0, 0)
        if self._together is not None:
            self._together.append(head + body)
        else:
            self.socket.sendall(head + body)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is sent in here goes out in one write, and is read at once."""
        self._together = []
        yield
        written, self._together = b"".join(self._together), None
        self.socket.sendall(written)

    def send_empty_frame(self) -> None:
        """A heartbeat."""
        self.socket.sendall(struct.pack(">IBBH", 8, 2, 0, 0))

    # Reading

    def expect(
        self,
        code: int,
        fits: Callable[[Frame], bool] = lambda frame: True,
        seconds: float = WAIT_SECONDS,
    ) -> Frame:
        """Take the first received frame of a kind that fits; wait for it if need be."""
        deadline = time.monotonic() + seconds
        while True:
            for index, frame in enumerate(self._inbox):
                if frame.code == code and fits(frame):
                    return self._inbox.pop(index)
            self.pump(deadline - time.monotonic())

    def find(self, code: int, fits: Callable[[Frame], bool]) -> Frame:
        """A frame of all that ever came that fits; wait for it if need be."""
        seen = 0
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            for frame in self.frames[seen:]:
                if frame.code == code and fits(frame):
                    return frame
            seen = len(self.frames)
            self.pump(deadline - time.monotonic())

    def nothing_more(self, code: int, seconds: float = 0.3) -> None:
        """Check that no frame of a kind comes for a short while."""
        try:
            frame = self.expect(code, seconds=seconds)
        except TimeoutError:
            return
        raise AssertionError(f"unexpected frame: {frame}")

    def wait_closed(self) -> None:
        """Wait until the bus has closed the connection."""
        deadline = time.monotonic() + WAIT_SECONDS
        try:
            while True:
                self.pump(deadline - time.monotonic())
        except ConnectionError:
            return

    def pump(self, seconds: float = WAIT_SECONDS) -> None:
        """Read what comes next. Raises TimeoutError, or ConnectionError at the end."""
        if seconds <= 0:
            raise TimeoutError(f"the frame did not come; waiting: {self._inbox}")
        self.socket.settimeout(seconds)
        self._read_more()
        self._take_frames()

    def _take_frames(self) -> None:
        while len(self._buffer) >= 8:
            size = struct.unpack(">I", self._buffer[:4])[0]
            if len(self._buffer) < size:
                break
            raw, self._buffer = self._buffer[:size], self._buffer[size:]
            self._arrived(parse_frame(raw))

    def _read_more(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionResetError("the bus closed the connection")
        self._buffer += data

    def _arrived(self, frame: Frame) -> None:
        self.frames.append(frame)
        if frame.code == FLOW:
            next_id = frame.next_incoming_id or 0
            self.window = next_id + frame.incoming_window - self.next_outgoing_id
            if frame.handle is not None and frame.handle in self.links:
                self.links[frame.handle].on_flow(frame)
        self._inbox.append(frame)

    # Links

    def attach(self, role: bool, **changes: Any) -> tuple[Frame, int]:
        """Send an attach and wait for the answer; raises LinkRefused."""
        return self.answer_to(*self.send_attach(role, **changes))

    def send_attach(self, role: bool, **changes: Any) -> tuple[str, int]:
        """Send an attach; gives the link's name and handle."""
        handle = next(self._handles)
        fields = {
            "name": f"link-{handle}-{time.monotonic_ns()}",
            "handle": Uint(handle),
            "role": role,
            **changes,
        }
        self.send(ATTACH, [fields.get(name) for name in FIELDS[ATTACH].split()])
        return str(fields["name"]), handle

    def answer_to(self, name: str, handle: int) -> tuple[Frame, int]:
        """Wait for the answer to an attach; raises LinkRefused."""
        answer = self.expect(ATTACH, lambda frame: frame.name == name)
        if answer.source is None and answer.target is None:
            detach = self.expect(DETACH, lambda frame: frame.handle == answer.handle)
            raise LinkRefused(answer, detach)
        return answer, handle

    def sender(self, address: str, **changes: Any) -> "SenderLink":
        """An attached link to send to an address."""
        fields = {
            "snd_settle_mode": Ubyte(UNSETTLED),
            "rcv_settle_mode": Ubyte(FIRST),
            "source": terminus(0x28, None),
            "target": terminus(0x29, address),
            "initial_delivery_count": Uint(0),
            **changes,
        }
        link = SenderLink(self, *self.attach(SENDER, **fields))
        link.wait_for_credit()
        return link

    def receiver(self, address: str, **changes: Any) -> "ReceiverLink":
        """An attached link to receive from an address, in peek-lock mode."""
        fields = {
            "snd_settle_mode": Ubyte(UNSETTLED),
            "rcv_settle_mode": Ubyte(SECOND),
            "source": terminus(0x28, address),
            "target": terminus(0x29, None),
            **changes,
        }
        return ReceiverLink(self, *self.attach(RECEIVER, **fields))

    def destructive_receiver(self, address: str, **changes: Any) -> "ReceiverLink":
        """An attached link to receive and delete."""
        modes = {"snd_settle_mode": Ubyte(SETTLED), "rcv_settle_mode": Ubyte(FIRST)}
        return self.receiver(address, **{**modes, **changes})


class SenderLink:
    """A link that sends; the bus grants the credit."""

    def __init__(self, peer: Peer, attached: Frame, handle: int) -> None:
        self.peer, self.attached, self.handle = peer, attached, handle
        self.delivery_count = 0
        self.credit = 0
        peer.links[int(attached.handle)] = self
        # Credit often comes in the same packet as the attach.
        for frame in peer.frames[peer.frames.index(attached) :]:
            if frame.code == FLOW and frame.handle == attached.handle:
                self.on_flow(frame)

    def on_flow(self, frame: Frame) -> None:
        """The bus granted credit."""
        granted = int(frame.delivery_count or 0) + int(frame.link_credit)
        self.credit = granted - self.delivery_count

    def wait_for_credit(self) -> None:
        """Wait until one more message may be sent."""
        while self.credit <= 0 or self.peer.window <= 0:
            self.peer.pump()

    def post(self, payload: bytes, *, settled: bool = False, form: int = 0) -> int:
        """Send a message, in as many frames as it needs; gives its delivery id."""
        self.wait_for_credit()
        delivery_id = self.peer.next_delivery_id
        tag = struct.pack(">I", delivery_id)
        room = self.peer.max_frame_size - 64
        chunks = [payload[at : at + room] for at in range(0, len(payload), room)]
        first = [Uint(self.handle), Uint(delivery_id), tag, Uint(form), settled]
        for index, chunk in enumerate(chunks):
            head = first if index == 0 else [Uint(self.handle), None, None, None, None]
            self.peer.send(TRANSFER, [*head, index < len(chunks) - 1], chunk)
        self.peer.next_delivery_id += 1
        self.peer.next_outgoing_id += len(chunks)
        self.peer.window -= len(chunks)
        self.delivery_count += 1
        self.credit -= 1
        return delivery_id

    def outcome_of(self, delivery_id: int) -> tuple[int, AmqpError | None]:
        """The bus's verdict on a delivery: outcome code and error."""
        frame = self.peer.find(
            DISPOSITION,
            lambda frame: frame.role is RECEIVER and _covers(frame, delivery_id),
        )
        assert frame.settled is True
        fields = frame.state.value
        return int(frame.state.descriptor), error_of(fields[0]) if fields else None

    def send(self, payload: bytes, *, form: int = 0) -> None:
        """Send a message, which has to be accepted."""
        assert self.outcome_of(self.post(payload, form=form)) == (ACCEPTED, None)


class ReceiverLink:
    """A link that receives; the case grants the credit."""

    def __init__(self, peer: Peer, attached: Frame, handle: int) -> None:
        self.peer, self.attached, self.handle = peer, attached, handle
        self.remote_handle = int(attached.handle)
        self.delivery_count = int(attached.initial_delivery_count)

    def on_flow(self, frame: Frame) -> None:
        """Flows of the bus to this link are for the cases to look at."""

    def flow(self, credit: int, *, drain: bool = False) -> None:
        """Set the credit (an absolute value)."""
        received = sum(1 for frame in self.peer.frames if frame.code == TRANSFER)
        next_incoming_id = self.peer.first_incoming_id + received
        session = [Uint(next_incoming_id), Uint(1_000_000)]
        session += [Uint(self.peer.next_outgoing_id), Uint(1_000_000)]
        link = [Uint(self.handle), Uint(self.delivery_count), Uint(credit)]
        self.peer.send(FLOW, [*session, *link, None, drain])

    def next(self, seconds: float = WAIT_SECONDS) -> Delivery:
        """The next delivery, its frames put together."""
        frames: list[Frame] = []
        while not frames or frames[-1].more:
            frames.append(self.peer.expect(TRANSFER, self._is_mine, seconds))
        first = frames[0]
        self.delivery_count += 1
        raw = b"".join(frame.payload for frame in frames)
        return Delivery(
            int(first.delivery_id),
            bytes(first.delivery_tag),
            any(frame.settled for frame in frames),
            Received(raw),
            len(frames),
        )

    def take(self, count: int = 1) -> list[Delivery]:
        """Grant credit for some messages and receive them."""
        self.flow(count)
        return [self.next() for _ in range(count)]

    def nothing_comes(self, credit: int = 1) -> None:
        """Drain: the bus says itself that there is nothing to deliver."""
        self.flow(credit, drain=True)
        flow = self.drained()
        self.delivery_count = int(flow.delivery_count)
        self.peer.nothing_more(TRANSFER, seconds=0.05)

    def drained(self) -> Frame:
        """Wait for the bus's answer to a drain."""
        return self.peer.expect(
            FLOW,
            lambda frame: (
                frame.handle == self.remote_handle
                and frame.drain is True
                and frame.link_credit == 0
            ),
        )

    def settle(
        self, first: int, state: Any, *, last: int | None = None, settled: bool = False
    ) -> None:
        """Send a disposition for one delivery or a range."""
        end = None if last is None else Uint(last)
        self.peer.send(DISPOSITION, [RECEIVER, Uint(first), end, settled, state])

    def verdict_of(self, delivery_id: int) -> tuple[int, AmqpError | None]:
        """The bus's answer to an unsettled disposition: outcome code and error."""
        frame = self.peer.find(
            DISPOSITION,
            lambda frame: frame.role is SENDER and _covers(frame, delivery_id),
        )
        assert frame.settled is True
        fields = frame.state.value
        has_error = frame.state.descriptor == REJECTED and bool(fields)
        return int(frame.state.descriptor), error_of(fields[0]) if has_error else None

    def detach(self) -> None:
        """Close the link and wait for the answer."""
        self.peer.send(DETACH, [Uint(self.handle), True])
        self.peer.expect(DETACH, lambda frame: frame.handle == self.remote_handle)

    def _is_mine(self, frame: Frame) -> bool:
        return int(frame.handle) == self.remote_handle


def _covers(frame: Frame, delivery_id: int) -> bool:
    last = frame.first if frame.last is None else frame.last
    return int(frame.first) <= delivery_id <= int(last)
