"""The network between clients and brokers, with AMQP on it as it is.

A connection is a pair of transports. Bytes arrive in order, after a while. A cut keeps
bytes of one direction from arriving; as TCP sends them again, they arrive when it is
over. A process that ends resets its connections, and those on the other side learn it;
if its machine loses power, they learn nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from simulator.process_loop import (
    OUTSIDE,
    ProcessLoop,
    SimulatedProcess,
    running_process,
)
from twinbus.peers.peer_address import host_and_port

_AGAIN_SECONDS: Final = 0.15
"""So often bytes are sent again that did not arrive."""

_END: Final = None
"""What a pipe delivers last."""

Factory = Callable[[], asyncio.Protocol]


async def reach_over_network(address: str, make: Callable[[], Any]) -> Any:
    """How a broker connects to another one: nobody else is in the network, so they do
    not prove who they are. Raises OSError."""
    loop = asyncio.get_running_loop()
    return await loop.create_connection(make, *host_and_port(address))


class Cuts:
    """Which places cannot send to which others."""

    def __init__(self) -> None:
        # How many troubles cut a way.
        self._counts: dict[tuple[str, str], int] = {}

    def begin(self, sender: str, receiver: str) -> None:
        way = sender, receiver
        self._counts[way] = self._counts.get(way, 0) + 1

    def end(self, sender: str, receiver: str) -> None:
        self._counts[sender, receiver] -= 1

    def has(self, sender: str, receiver: str) -> bool:
        return self._counts.get((sender, receiver), 0) > 0

    def between(self, one: str, other: str) -> bool:
        """In at least one direction."""
        return self.has(one, other) or self.has(other, one)


class Network:
    """All places, and what listens there."""

    def __init__(self, loop: ProcessLoop, random: Random, cuts: Cuts) -> None:
        self.loop = loop
        self._random = random
        self.cuts = cuts
        self._listeners: dict[int, tuple[SimulatedProcess, Factory]] = {}
        self._last_port = 0
        self._transports: list[SimulatedTransport] = []
        loop.connect = self.connect

    def listen(self, process: SimulatedProcess, factory: Factory) -> int:
        """Serve connections to a new port, until the process ends."""
        self._last_port += 1
        port = self._last_port
        self._listeners[port] = process, factory
        process.on_end.append(lambda: self.close(port))
        return port

    def close(self, port: int) -> None:
        self._listeners.pop(port, None)

    def end(self) -> None:
        """The world is over: streams that nobody closed must not complain of it."""
        for transport in self._transports:
            transport.end()

    async def connect(self, factory: Factory, host: str, port: int) -> Any:
        """Raises OSError. Waits for as long as packets do not arrive."""
        client, random = running_process(), Random(self._random.random())
        await asyncio.sleep(random.uniform(0.0001, 0.002))
        while self.cuts.between(client.place, host):  # noqa: ASYNC110
            await asyncio.sleep(_AGAIN_SECONDS)
        found = self._listeners.get(port)
        if found is None:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        server, serving = found
        near = SimulatedTransport(self, client, server.place, random)
        far = SimulatedTransport(self, server, client.place, random)
        near.join(far)
        self._transports += (near, far)
        protocol = factory()
        near.begin(protocol)
        # A frozen process has not accepted it yet.
        server.call(far.accept, serving)
        return near, protocol


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self, network: Network, process: SimulatedProcess, other: str, random: Random
    ) -> None:
        super().__init__()
        self._network = network
        self._process = process
        self._other = other
        self._random = random
        self._protocol: asyncio.Protocol | None = None
        self._peer: SimulatedTransport | None = None
        # What was sent and has not arrived at the other end.
        self._under_way: deque[bytes | None] = deque()
        self._arrives_at = 0.0
        self._is_closing = False
        self._is_lost = False
        self._is_paused = False
        # What has arrived and was not read.
        self._unread: deque[bytes | None] = deque()
        process.on_end.append(self._process_ended)

    def join(self, peer: "SimulatedTransport") -> None:
        self._peer, peer._peer = peer, self

    def begin(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def accept(self, factory: Factory) -> None:
        self.begin(factory())
        self._read()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._other, 0) if name == "peername" else default

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """There is no limit."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    # --- writing --------------------------------------------------------------

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._send(bytes(data))

    def _send(self, data: bytes | None) -> None:
        self._under_way.append(data)
        if len(self._under_way) == 1:
            self._arrive_in(self._random.uniform(0.0001, 0.003))

    def _arrive_in(self, seconds: float) -> None:
        self._network.loop.call_later(seconds, self._arrive, context=OUTSIDE.copy())

    def _arrive(self) -> None:
        """At the other end, all that is under way."""
        peer = self._peer
        assert peer is not None
        if self._network.cuts.has(self._process.place, self._other):
            self._arrive_in(_AGAIN_SECONDS)
            return
        while self._under_way:
            peer._unread.append(self._under_way.popleft())
        peer._process.call(peer._read)

    # --- reading --------------------------------------------------------------

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._process.call(self._read)

    def _read(self) -> None:
        if self._protocol is None:
            return  # not accepted yet
        while self._unread and not self._is_paused and not self._is_lost:
            data = self._unread.popleft()
            if data is _END:
                self._is_closing = True
                self._lose(None)
            else:
                self._protocol.data_received(data)

    # --- ending ---------------------------------------------------------------

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._send(_END)
            self._process.call(self._lose, None)

    def abort(self) -> None:
        self.close()

    def end(self) -> None:
        """Without a word to anybody."""
        self._is_closing = True

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            assert self._protocol is not None
            self._protocol.connection_lost(error)

    def _process_ended(self) -> None:
        """The system resets the connection, unless it has no power."""
        if not self._is_closing and not self._process.is_silent:
            self._is_closing = True
            self._send(_END)
