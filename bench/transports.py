"""`python -m bench.transports`: the same messages over TCP, TLS and WebSockets.

One client sends messages and receives them again, over each transport in turn, and
that several times: what the machine does besides hits all of them. A WebSocket message
has one frame of AMQP in it, as the SDKs send them. The client prepares its bytes before
the clock starts; so the processor time of the server, for each message, is what a
transport costs, and the ratio to plain TCP is what this is about. The best of all
rounds counts.
"""

import argparse
import socket
import ssl
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from websockets.frames import Frame, Opcode

from bench.attackers.raw_frames import (
    ATTACH,
    BEGIN,
    DISPOSITION,
    TRANSFER,
    attach_frame,
    credit_frame,
    hello,
    transfer_frame,
)
from bench.processes import usage_of_tree
from bench.twinbus_server import TwinbusServer
from twinbus.amqp.codec import decode
from twinbus.amqp.messaging import Data, Message, encode_message
from twinbus.amqp.types import Described

TRANSPORTS: Final = ("TCP", "TLS", "WebSocket", "WebSocket over TLS")

_AT_A_TIME: Final = 400
"""Messages on the way: within the credit that the bus gives."""

_SETTLED: Final = 1
_PATIENCE_SECONDS: Final = 60.0
_SIZE: Final = struct.Struct(">I")

_UPGRADE: Final = (
    b"GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\n"
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
)


class Client:
    """One connection over one transport."""

    def __init__(self, server: TwinbusServer, transport: str) -> None:
        target = server.target
        self._is_framed = transport.startswith("WebSocket")
        self._socket = socket.create_connection(
            ("127.0.0.1", target.port), _PATIENCE_SECONDS
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if transport.endswith("TLS"):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._socket = context.wrap_socket(self._socket)
        # Received: inside of WebSocket frames, and outside of them.
        self._stream, self._raw = bytearray(), bytearray()
        if self._is_framed:
            self._socket.sendall(_UPGRADE)
            while b"\r\n\r\n" not in self._raw:
                self._raw += self._socket.recv(65_536)
            del self._raw[: self._raw.index(b"\r\n\r\n") + 4]
        self.write(self.framed([hello(target.user, target.password)]))
        self.expect(BEGIN)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def framed(self, frames: Sequence[bytes]) -> bytes:
        """Frames of AMQP as they are sent."""
        if not self._is_framed:
            return b"".join(frames)
        return b"".join(
            Frame(Opcode.BINARY, one).serialize(mask=True) for one in frames
        )

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def expect(self, code: int) -> tuple[list[object], int]:
        """The fields of the next such performative; and how many bytes it had."""
        while True:
            found = self._next()
            if len(found) > 3 and found[2] == code:
                value, _ = decode(found, 0)
                assert isinstance(value, Described) and isinstance(value.value, list)
                return value.value, len(found)

    def skip(self, code: int, count: int) -> None:
        """Read so many performatives of that kind."""
        while count:
            found = self._next()
            count -= len(found) > 3 and found[2] == code

    def _next(self) -> bytes:
        """The body of the next frame of AMQP."""
        stream = self._stream
        while True:
            if stream[:4] == b"AMQP":
                del stream[:8]
            if len(stream) >= 8 and len(stream) >= (
                size := _SIZE.unpack_from(stream)[0]
            ):
                body = bytes(stream[8:size])
                del stream[:size]
                return body
            self._read()

    def _read(self) -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise SystemExit("the bus has closed the connection")
        if not self._is_framed:
            self._stream += data
            return
        raw, at = self._raw, 0
        raw += data
        while len(raw) - at >= 4:
            size, start = raw[at + 1], at + 2
            if size == 126:
                size, start = raw[at + 2] << 8 | raw[at + 3], at + 4
            if len(raw) < start + size:
                break
            self._stream += raw[start : start + size]
            at = start + size
        del raw[:at]


def send(client: Client, address: str, count: int, size: int) -> Callable[[], None]:
    """What sends so many messages, and waits until they are accepted."""
    client.write(client.framed([attach_frame(address)]))
    client.expect(ATTACH)
    payload = encode_message(Message(body=Data((bytes(size),))))
    portions = [
        client.framed([transfer_frame(number, payload) for number in portion])
        for portion in _portions(count)
    ]

    def run() -> None:
        for portion, numbers in zip(portions, _portions(count), strict=True):
            client.write(portion)
            last = -1
            while last < numbers[-1]:
                fields, _ = client.expect(DISPOSITION)
                first, until = fields[1], fields[2]
                last = int(str(first if until is None else until))

    return run


def receive(client: Client, address: str, count: int) -> Callable[[], None]:
    """What receives and deletes so many."""
    attach = attach_frame(address, handle=1, is_receiver=True, settle_mode=_SETTLED)
    client.write(client.framed([attach]))
    client.expect(ATTACH)

    def run() -> None:
        client.write(client.framed([credit_frame(count, handle=1)]))
        client.skip(TRANSFER, count)

    return run


def _portions(count: int) -> list[range]:
    starts = range(0, count, _AT_A_TIME)
    return [range(start, min(start + _AT_A_TIME, count)) for start in starts]


def measured(pid: int, count: int, run: Callable[[], None]) -> tuple[float, float]:
    """The server's microseconds for each message, and messages in a second."""
    cpu, began = usage_of_tree(pid).cpu_seconds, time.perf_counter()
    run()
    took = time.perf_counter() - began
    return (usage_of_tree(pid).cpu_seconds - cpu) / count * 1e6, count / took


def main(count: int, size: int, rounds: int) -> None:
    steps = ("send", "receive")
    cpu_us = {(name, step): float("inf") for name in TRANSPORTS for step in steps}
    rates = dict.fromkeys(cpu_us, 0.0)
    with TwinbusServer() as server:
        for _ in range(rounds):
            for name in TRANSPORTS:
                with Client(server, name) as client:
                    address = server.target.address
                    runs = (
                        send(client, address, count, size),
                        receive(client, address, count),
                    )
                    for step, run in zip(steps, runs, strict=True):
                        spent, rate = measured(server.pid, count, run)
                        cpu_us[name, step] = min(cpu_us[name, step], spent)
                        rates[name, step] = max(rates[name, step], rate)
    print(f"{count} messages of {size} bytes, best of {rounds} rounds")
    for step in steps:
        for name in TRANSPORTS:
            ratio = cpu_us[name, step] / cpu_us["TCP", step]
            print(
                f"  {step:8}{name:20}{cpu_us[name, step]:7.1f} us of the server "
                f"({ratio:.2f}x TCP), {rates[name, step]:,.0f}/s"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="messages (20000)")
    parser.add_argument("--size", type=int, default=1024, help="bytes of each (1024)")
    parser.add_argument("--rounds", type=int, default=5, help="of all (5)")
    given = parser.parse_args()
    main(given.count, given.size, given.rounds)
