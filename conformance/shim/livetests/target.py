"""The server under test, as the variables describe it.

SB_CONNECTION_STRING         of the namespace, by a rule with Manage
SB_HTTP_ENDPOINT             administration: http://host:port, or host:port
SB_WS_ENDPOINT               AMQP over WebSocket: ws://host:port; may be missing
SB_WS_ONLY=1                 all messages over WebSocket, whatever a test says
SB_LISTEN_CONNECTION_STRING  by a rule that may only listen; may be missing
SB_SEND_CONNECTION_STRING    by a rule that may only send; may be missing
"""

import functools
import os
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

# Where the vendor's emulator has its administration.
_EMULATOR_HTTP_PORT = 5300


def _settings(connection_string: str) -> dict[str, str]:
    parts = (part.partition("=") for part in connection_string.strip().split(";"))
    return {name.strip().lower(): value for name, _, value in parts if name}


def _with_scheme(address: str, scheme: str) -> SplitResult:
    return urlsplit(address if "//" in address else f"{scheme}://{address}")


class Target:
    """Addresses and keys of the server under test."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        self.connection_string = variables.get("SB_CONNECTION_STRING", "")
        settings = _settings(self.connection_string)
        if not settings.get("endpoint"):
            raise RuntimeError("SB_CONNECTION_STRING is not set, or has no Endpoint=")
        endpoint = urlsplit(settings["endpoint"])
        # host or host:port, exactly as the tests will hand it to the SDK
        self.netloc = endpoint.netloc
        self.is_emulator = settings.get("usedevelopmentemulator", "").lower() == "true"
        self.has_tls = not self.is_emulator
        self.port = endpoint.port or (5671 if self.has_tls else 5672)
        self.key_name = settings.get("sharedaccesskeyname", "")
        self.key = settings.get("sharedaccesskey", "")
        self.http = self._http(variables, endpoint.hostname or "")
        ws = variables.get("SB_WS_ENDPOINT", "")
        self.ws = _with_scheme(ws, "wss" if self.has_tls else "ws") if ws else None
        self.is_ws_only = self.ws is not None and variables.get("SB_WS_ONLY") == "1"
        self.restricted = {
            "Listen": variables.get("SB_LISTEN_CONNECTION_STRING"),
            "Send": variables.get("SB_SEND_CONNECTION_STRING"),
        }

    def _http(self, variables: Mapping[str, str], host: str) -> SplitResult:
        scheme = "https" if self.has_tls else "http"
        usual = f"{host}:{_EMULATOR_HTTP_PORT}" if self.is_emulator else host
        address = variables.get("SB_HTTP_ENDPOINT", "").rstrip("/")
        return _with_scheme(address or usual, scheme)

    def is_meant_by(self, namespace: object) -> bool:
        """Whether a namespace given to the SDK is the server under test."""
        if not isinstance(namespace, str):
            return False
        bare = namespace.strip().partition("//")[2] or namespace.strip()
        return bare.split("/", 1)[0].lower() == self.netloc.lower()

    def connection_string_of(self, key_name: str, key: str, entity: str = "") -> str:
        return (
            f"Endpoint=sb://{self.netloc}/;SharedAccessKeyName={key_name};"
            f"SharedAccessKey={key}"
            + (";UseDevelopmentEmulator=true" if self.is_emulator else "")
            + (f";EntityPath={entity}" if entity else "")
        )


@functools.cache
def target() -> Target:
    return Target()


# Where the test that runs now did not get what it asked for; goes into its report.
notes: list[str] = []


def note(text: str) -> None:
    if text not in notes:
        notes.append(text)
