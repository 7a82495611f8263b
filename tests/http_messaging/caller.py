"""Messages over HTTP by hand: any request, on one keep-alive connection, and the raw
answers."""

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree

from bulk.caller import token_of

from twinbus.testing import Bus

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 60.0
BATCH = "application/vnd.microsoft.servicebus.json"


class Answer(NamedTuple):
    status: int
    # As they were written.
    headers: dict[str, str]
    body: bytes

    @property
    def broker(self) -> dict[str, Any]:
        """The BrokerProperties."""
        properties: dict[str, Any] = json.loads(self.headers["BrokerProperties"])
        return properties

    @property
    def detail(self) -> str:
        """Of a refusal, which has to be the document that clients read."""
        root = ElementTree.fromstring(self.body)
        assert root.findtext("Code") == str(self.status)
        return str(root.findtext("Detail"))

    @property
    def lock(self) -> str:
        """The target of requests about the locked message."""
        assert self.status == 201, self
        return urlsplit(self.headers["location"]).path


class Caller:
    """A client of the bus, with one connection and one token."""

    def __init__(self, port: int, token: str) -> None:
        self.token = token
        self.http = http.client.HTTPConnection("127.0.0.1", port, PATIENCE_SECONDS)

    @classmethod
    def of(cls, bus: Bus, **how: Any) -> "Caller":
        return cls(bus.port, token_of(bus, **{"seconds": 36_000, **how}))

    def close(self) -> None:
        """The client goes: the bus sees the end of the stream."""
        self.http.close()

    def begin(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Ask, and do not wait for the answer."""
        sent = {"Authorization": self.token} if self.token else {}
        self.http.request(method, target, body, {**sent, **(headers or {})})

    def answer(self) -> Answer:
        response = self.http.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())

    def __call__(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        self.begin(method, target, body, headers)
        return self.answer()

    # --- what most tests want ---------------------------------------------------

    def send(
        self,
        entity: str,
        body: bytes = b"x",
        headers: Mapping[str, str] | None = None,
        **broker: Any,
    ) -> None:
        """It has to be accepted."""
        all_headers = dict(headers or {})
        if broker:
            all_headers["BrokerProperties"] = json.dumps(broker)
        answer = self("POST", f"/{entity}/messages", body, all_headers)
        assert (answer.status, answer.body) == (201, b""), answer

    def batch(self, entity: str, messages: Any) -> Answer:
        body = messages if isinstance(messages, bytes) else json.dumps(messages)
        return self(
            *("POST", f"/{entity}/messages"),
            body if isinstance(body, bytes) else body.encode(),
            {"Content-Type": BATCH},
        )

    def take(self, entity: str, timeout: float = 10) -> Answer:
        """Receive and delete."""
        return self("DELETE", f"/{entity}/messages/head?timeout={timeout}")

    def lock(self, entity: str, timeout: float = 10) -> Answer:
        """Receive with peek-lock."""
        return self("POST", f"/{entity}/messages/head?timeout={timeout}")

    def bodies(self, entity: str) -> list[bytes]:
        """Of all messages that are there; they are deleted."""
        found = []
        while (answer := self.take(entity, 0)).status == 200:
            found.append(answer.body)
        assert answer.status == 204, answer
        return found

    @property
    def socket(self) -> socket.socket:
        connected: socket.socket = self.http.sock
        return connected
