"""A TCP proxy that fails in the ways networks and servers fail.

It is in front of a server, with its own thread and loop, so that blocking and
asynchronous tests can use it. A fault affects current and later connections, until
`heal`. Of AMQP it knows only the length of frames, which a test may change on their way
to the client.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from enum import Enum
from types import TracebackType
from typing import Any, Self

_PORTION_BYTES = 64 * 1024
_WAIT_SECONDS = 10.0


class Fault(Enum):
    """What is wrong with the way to the server."""

    NONE = "passes"
    REFUSED = "port closed, connections reset"
    BLACK_HOLE = "connects, and swallows everything"
    FROZEN = "connects, and holds everything until it is healed"
    MUTE = "the server gets everything, the client nothing"


class _Frames:
    """Translates the frames of a stream, one by one."""

    def __init__(self, translate: Callable[[bytes], bytes]) -> None:
        self._translate = translate
        self._rest = b""

    def fed(self, portion: bytes) -> bytes:
        stream = self._rest + portion
        done: list[bytes] = []
        while len(stream) >= 8:
            is_header = stream.startswith(b"AMQP")
            size = 8 if is_header else struct.unpack_from(">I", stream)[0]
            if len(stream) < size:
                break
            frame, stream = stream[:size], stream[size:]
            done.append(frame if is_header else self._translate(frame))
        self._rest = stream
        return b"".join(done)


class Proxy:
    """`with Proxy(port) as proxy` listens on `proxy.port` of the loopback interface."""

    def __init__(
        self, target_port: int, translate: Callable[[bytes], bytes] | None = None
    ) -> None:
        self._target_port = target_port
        self._translate = translate
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        # Bound and never listening: keeps the port ours while it is refused.
        self._claim = _bound_socket(0)
        self.port: int = self._claim.getsockname()[1]
        self._server: asyncio.Server | None = None
        self._fault = Fault.NONE
        self._healed = asyncio.Event()
        self._delay_seconds = 0.0
        self._answers_left: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        # What was seen, for tests that count.
        self.connection_count = 0
        # What clients said since `forget_requests`, by connection.
        self.requests: list[bytearray] = []
        self.client_bytes = 0
        self.server_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._healed.set()
        self._run(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_SECONDS)
        self._loop.close()
        self._claim.close()

    # --- what a test does to it -----------------------------------------------

    def refuse(self) -> None:
        """As after a power cut: the port is closed and every connection reset."""
        self._run(self._become(Fault.REFUSED))

    def black_hole(self) -> None:
        """As behind a broken route: bytes go in, and nothing ever comes out."""
        self._run(self._become(Fault.BLACK_HOLE))

    def freeze(self) -> None:
        """Hold every byte until `heal`."""
        self._run(self._become(Fault.FROZEN))

    def mute(self) -> None:
        """The server hears and works; its answers are lost."""
        self._run(self._become(Fault.MUTE))

    def cut_answers_after(self, count: int) -> None:
        """Reset a connection once the server has answered this many bytes more."""
        self._answers_left = count

    def delay(self, seconds: float) -> None:
        """Hold every portion, in both directions, for so long."""
        self._delay_seconds = seconds

    def heal(self) -> None:
        """Pass everything again; connections that lost bytes are reset."""
        self._run(self._become(Fault.NONE))

    def reset_connections(self) -> None:
        """Reset what is connected; what connects next is served."""
        self._run(self._reset())

    # --- on its own loop ------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_SECONDS)

    async def _listen(self) -> None:
        listener = _bound_socket(self.port)
        self._server = await asyncio.start_server(self._accepted, sock=listener)

    async def _close_listener(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _become(self, fault: Fault) -> None:
        before, self._fault = self._fault, fault
        if fault is Fault.REFUSED:
            await self._close_listener()
        if before in (Fault.BLACK_HOLE, Fault.MUTE) or fault is Fault.REFUSED:
            await self._reset()
        if fault is Fault.FROZEN:
            self._healed.clear()
        else:
            self._healed.set()
        if self._server is None and fault is not Fault.REFUSED:
            await self._listen()
        if fault is Fault.NONE:
            self._delay_seconds, self._answers_left = 0.0, None

    async def _reset(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _end(self) -> None:
        await self._close_listener()
        for task in self._pumps:
            task.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        await self._reset()
        # Aborted transports say goodbye in the loop's next turns.
        for _ in range(3):
            await asyncio.sleep(0)

    def _accepted(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = self._loop.create_task(self._connected(reader, writer))
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)

    async def _connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writers.add(writer)
        self.connection_count += 1
        try:
            await self._serve(reader, writer)
        except OSError:
            # Either end went away: so does the other.
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._fault is Fault.BLACK_HOLE:
            while await reader.read(_PORTION_BYTES):
                pass
            return
        far = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers.add(far[1])
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._requests(reader, far[1]))
                both.create_task(self._answers(far[0], writer))
        except* OSError:
            pass
        finally:
            far[1].transport.abort()
            self._writers.discard(far[1])

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        said = bytearray()
        self.requests.append(said)
        while portion := await self._portion(reader):
            self.client_bytes += len(portion)
            said += portion
            if self._fault is not Fault.BLACK_HOLE:
                writer.write(portion)
                await writer.drain()
        raise ConnectionResetError("the client has gone")

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        frames = _Frames(self._translate) if self._translate else None
        while portion := await self._portion(reader):
            self.server_bytes += len(portion)
            if self._fault in (Fault.BLACK_HOLE, Fault.MUTE):
                continue
            writer.write(self._allowed(frames.fed(portion) if frames else portion))
            await writer.drain()
            if self._answers_left == 0:
                break
        raise ConnectionResetError("the server has gone, or was cut off")

    async def _portion(self, reader: asyncio.StreamReader) -> bytes:
        portion = await reader.read(_PORTION_BYTES)
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)
        await self._healed.wait()
        return portion

    def _allowed(self, portion: bytes) -> bytes:
        if self._answers_left is None:
            return portion
        portion = portion[: self._answers_left]
        self._answers_left -= len(portion)
        return portion


def _bound_socket(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound
