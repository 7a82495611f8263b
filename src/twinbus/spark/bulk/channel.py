"""One connection to the HTTP listener of a bus, which repeats failed requests.

Repeating a request does no harm: reads, leases and plans change nothing, a settled
message stays settled, and appended messages are dropped if the bus knows their ids.
"""

import http.client
import json
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from twinbus.clock import SystemClock
from twinbus.spark.bulk.errors import BulkError, NoHttp
from twinbus.spark.connection import SparkConnection
from twinbus.spark.patience import BUSY_SECONDS, RetryPatience

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 60.0
"""For one attempt, if the option `timeout` allows that long."""

_TOKEN_MARGIN_MS: Final = 300_000
_SERVER_BUSY: Final = "com.microsoft:server-busy"
_PROBES: Final = 3
_TRANSIENT: Final = (408, 429, 502, 503, 504)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back."""

    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content


class Channel:
    """Sends requests, one at a time. Not shared between threads."""

    def __init__(self, connection: SparkConnection, patience_ms: int) -> None:
        self._opened = connection.open()
        self._patience_seconds = patience_ms / 1000
        self._http: http.client.HTTPConnection | None = None
        self._token = ""
        self._token_ends_at = 0

    @property
    def address(self) -> str:
        """For messages: has no secret."""
        return self._opened.url

    @property
    def host(self) -> str:
        return self._opened.host

    def post(self, name: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """A request in JSON. Raises BulkError."""
        return self.request(f"/$bulk/{name}", json.dumps(content).encode()).json()

    def request(
        self,
        target: str,
        body: bytes = b"",
        *,
        method: str = "POST",
        is_probe: bool = False,
    ) -> Answer:
        """Raises BulkError when the time is up, or at once if waiting does not help.

        `is_probe`: the peer may not speak HTTP at all. If it hangs up several times,
        raises NoHttp.
        """
        patience = RetryPatience(self._patience_seconds)
        is_told, hung_up = False, 0
        while True:
            try:
                return self._attempt(method, target, body)
            except BulkError as error:
                busy = error.condition == _SERVER_BUSY
                if not (busy or error.status in _TRANSIENT):
                    raise
                if not patience.wait(BUSY_SECONDS if busy else 0.0):
                    raise
            except ssl.SSLCertVerificationError as error:
                self.close()
                raise BulkError(
                    f"{self.address} is not trusted: {error.verify_message}. The "
                    "option 'caFile' names the authorities that are."
                ) from None
            except (OSError, http.client.HTTPException) as error:
                self.close()
                hung_up += isinstance(error, http.client.BadStatusLine)
                if is_probe and hung_up >= _PROBES:
                    raise NoHttp(f"{self.address} does not speak HTTP.") from None
                if not is_told:
                    _log.warning("%s: %s. Waiting.", self.address, _reason(error))
                is_told = True
                if not patience.wait():
                    raise BulkError(
                        f"{self.address} did not answer within "
                        f"{self._patience_seconds:g} s: {_reason(error)}. The option "
                        "'timeout' says how long to wait.",
                        is_retryable=True,
                    ) from None

    def _attempt(self, method: str, target: str, body: bytes) -> Answer:
        connection = self._connected()
        connection.request(
            method, target, body or None, {"authorization": self._valid_token()}
        )
        response = connection.getresponse()
        content = response.read()
        if response.status == 200:
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(headers=headers, body=content)
        raise _refusal(response.status, content, self.address)

    def _connected(self) -> http.client.HTTPConnection:
        if self._http is None:
            timeout = min(_TIMEOUT_SECONDS, self._patience_seconds)
            self._http = self._opened.http_client(timeout)
        return self._http

    def _valid_token(self) -> str:
        if self._token_ends_at - SystemClock().now() < _TOKEN_MARGIN_MS:
            self._token, self._token_ends_at = self._opened.token()
        return self._token

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None


def _refusal(status: int, body: bytes, address: str) -> BulkError:
    try:
        error = json.loads(body)["error"]
        return BulkError(
            error["message"],
            condition=error["condition"],
            status=status,
            is_retryable=bool(error["retryable"]),
        )
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode("utf-8", "replace")
        return BulkError(f"{address} answered {status}: {text}", status=status)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
