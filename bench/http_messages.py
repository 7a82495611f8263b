"""`python -m bench.http_messages`: messages over HTTP, on one keep-alive connection.

A client sends messages, receives and deletes half of them, and receives and completes
the others: one request after the other, each durable before its answer. So the rate is
that of one client who waits; the processor time of the server, for each request, says
what many could do.
"""

import argparse
import http.client
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from bench.processes import usage_of_tree
from bench.twinbus_server import TwinbusServer
from twinbus.auth import sas


class Client:
    """One connection."""

    def __init__(self, server: TwinbusServer) -> None:
        target = server.target
        self._queue = target.address
        self._token = sas.make(
            resource=f"http://localhost/{target.address}",
            key_name=target.user,
            key=target.password,
            expires_at=int((time.time() + 3600) * 1000),
        )
        self._http = http.client.HTTPConnection("127.0.0.1", target.port)

    def ask(self, method: str, target: str, expected: int, body: bytes = b"") -> str:
        """The location in the answer, if it has one."""
        self._http.request(method, target, body, {"Authorization": self._token})
        response = self._http.getresponse()
        response.read()
        if response.status != expected:
            raise SystemExit(f"{method} {target} was answered with {response.status}")
        return response.headers.get("location", "")

    def send(self, body: bytes) -> None:
        self.ask("POST", f"/{self._queue}/messages", 201, body)

    def delete(self) -> None:
        self.ask("DELETE", f"/{self._queue}/messages/head", 200)

    def complete(self) -> None:
        """Two requests."""
        locked = self.ask("POST", f"/{self._queue}/messages/head", 201)
        self.ask("DELETE", urlsplit(locked).path, 200)


def main(count: int, size_bytes: int) -> None:
    body = bytes(size_bytes)
    with TwinbusServer() as server:
        client = Client(server)
        client.send(body)
        client.delete()
        for name, times, step in (
            ("send", count, lambda: client.send(body)),
            ("receive and delete", count // 2, client.delete),
            ("receive and complete", count - count // 2, client.complete),
        ):
            rate, cpu_us = _measured(server.pid, times, step)
            print(f"{name}: {rate:.0f} messages/s, {cpu_us:.0f} us of processor time")


def _measured(pid: int, times: int, step: Callable[[], None]) -> tuple[float, float]:
    """Messages in a second, and the server's microseconds for each."""
    cpu, began = usage_of_tree(pid).cpu_seconds, time.perf_counter()
    for _ in range(times):
        step()
    took = time.perf_counter() - began
    spent = usage_of_tree(pid).cpu_seconds - cpu
    return times / took, spent / times * 1e6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--size", type=int, default=256)
    chosen = parser.parse_args()
    main(chosen.count, chosen.size)
