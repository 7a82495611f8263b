"""An HTTP proxy that does nothing but CONNECT, as companies have them.

It wants a name and a password (Basic), and passes bytes on in both directions.
"""

import asyncio
import base64
import contextlib
import threading

_HEADER = base64.b64encode(b"somebody:pass-phrase").decode()


class ConnectProxy:
    """Runs in a thread of its own, on any free port."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        # Where clients wanted to go.
        self.targets: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        starting = asyncio.run_coroutine_threadsafe(self._start(), self._loop)
        self._server = starting.result(20)
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def tunnel_count(self) -> int:
        return len(self.targets)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._tunnel(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _tunnel(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        verb, target, _ = head.split(" ", 2)
        if verb != "CONNECT" or f"basic {_HEADER}".lower() not in head.lower():
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            await writer.drain()
            return
        self.targets.append(target)
        host, _, port = target.rpartition(":")
        to_bus = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.wait(
                [
                    asyncio.ensure_future(_pass_on(reader, to_bus[1])),
                    asyncio.ensure_future(_pass_on(to_bus[0], writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            to_bus[1].transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
