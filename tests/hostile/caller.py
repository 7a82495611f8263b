"""HTTP by hand: any method, any target, any token, and the raw answers.

All answers are kept, so that a test can search them afterwards.
"""

import asyncio
import http.client
import time
from typing import NamedTuple
from xml.etree import ElementTree

from crash.server_process import PATIENCE_SECONDS, ServerProcess

from twinbus.auth import sas
from twinbus.config.config import ROOT_KEY_NAME

ATOM = "http://www.w3.org/2005/Atom"
SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
SCHEMA_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def detail(self) -> str:
        """Of an error, which has to be the document that clients read."""
        root = ElementTree.fromstring(self.body)
        assert root.findtext("Code") == str(self.status)
        return str(root.findtext("Detail"))


def entry(kind: str, inner: str = "") -> str:
    """An Atom entry with the description of a `Queue`, `Topic`, and so on."""
    return (
        f'<entry xmlns="{ATOM}"><content type="application/xml">'
        f'<{kind}Description xmlns="{SERVICE_BUS}" xmlns:i="{SCHEMA_INSTANCE}">'
        f"{inner}</{kind}Description></content></entry>"
    )


class Caller:
    """A client of one bus, with the root key unless it says otherwise."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.heard: list[Answer] = []

    def token(
        self,
        resource: str = "",
        *,
        seconds: float = 60,
        key_name: str = ROOT_KEY_NAME,
        key: str = "",
    ) -> str:
        return sas.make(
            resource=f"http://localhost:{self._server.port}/{resource}",
            key_name=key_name,
            key=key or self._server.key,
            expires_at=int((time.time() + seconds) * 1000),
        )

    async def __call__(
        self,
        method: str,
        target: str,
        body: str | bytes = b"",
        *,
        token: str | None = None,
        **headers: str,
    ) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        token = self.token() if token is None else token
        if token:
            sent["Authorization"] = token
        answer = await asyncio.to_thread(self._call, method, target, body, sent)
        self.heard.append(answer)
        return answer

    def _call(
        self, method: str, target: str, body: str | bytes, headers: dict[str, str]
    ) -> Answer:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self._server.port, PATIENCE_SECONDS
        )
        try:
            connection.request(
                method,
                target,
                body.encode() if isinstance(body, str) else body,
                headers,
            )
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()
