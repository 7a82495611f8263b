"""A proxy of a bus that answers "busy" a given number of times."""

import http.client
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Self

BUSY = json.dumps(
    {
        "error": {
            "condition": "com.microsoft:server-busy",
            "message": "The server is busy. Wait 10 seconds and try again.",
            "entity": "",
            "retryable": True,
        }
    }
).encode()


class BusyFront:
    """Hands requests on to the bus; the next `refusals` of a kind it refuses."""

    def __init__(self, port: int) -> None:
        self.refusals: dict[str, int] = {}
        self.requests: list[tuple[str, int]] = []
        front = self

        class Front(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                front.answer(self, port)

            def do_GET(self) -> None:
                front.answer(self, port)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler, port: int) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        name = request.path.rpartition("/")[2]
        if self.refusals.get(name, 0) > 0:
            self.refusals[name] -= 1
            status, content, headers = 503, BUSY, {}
        else:
            status, content, headers = self._ask(request, port, body)
        self.requests.append((name, status))
        request.send_response(status)
        for key, value in headers.items():
            if key.startswith("x-twinbus"):
                request.send_header(key, value)
        request.send_header("content-length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def _ask(
        self, request: BaseHTTPRequestHandler, port: int, body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        bus = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        token = request.headers["authorization"]
        headers = {} if token is None else {"authorization": token}
        bus.request(request.command, request.path, body or None, headers)
        answer = bus.getresponse()
        content = answer.read()
        answered = {key.lower(): value for key, value in answer.getheaders()}
        bus.close()
        return answer.status, content, answered
