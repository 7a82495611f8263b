"""Which server a command talks to, and with which key.

A connection string says all of it. Without one it is the server of this machine:
its port, and the key in its data folder.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.config import ROOT_KEY_NAME, Config

CONNECTION_STRING_VARIABLE: Final = "TWINBUS_CONNECTION_STRING"

_PLAIN_PORT: Final = 5672
_TLS_PORT: Final = 5671


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a server listens, and what proves our rights to it."""

    host: str
    port: int
    is_tls: bool
    key_name: str
    key: str = field(repr=False)

    @property
    def text(self) -> str:
        """Without the key, for messages."""
        return f"{self.host}:{self.port}"

    @property
    def connection_string(self) -> str:
        """For SDKs: it has the key, and is not shown."""
        plain = "" if self.is_tls else "UseDevelopmentEmulator=true;"
        return (
            f"Endpoint=sb://{self.text};SharedAccessKeyName={self.key_name};"
            f"SharedAccessKey={self.key};{plain}"
        )


def parse_connection_string(text: str) -> ServerAddress:
    """The address that a connection string means. Raises Failure."""
    parts: dict[str, str] = {}
    for part in filter(None, text.strip().split(";")):
        name, _, value = part.partition("=")
        parts[name.strip().lower()] = value.strip()
    is_tls = parts.get("usedevelopmentemulator", "").lower() != "true"
    try:
        endpoint = urlsplit(parts.get("endpoint", ""))
        port = endpoint.port or (_TLS_PORT if is_tls else _PLAIN_PORT)
        host = endpoint.hostname or ""
    except ValueError:
        host = ""
    key_name = parts.get("sharedaccesskeyname", "")
    key = parts.get("sharedaccesskey", "")
    if not host or not key_name or not key:
        raise Failure(
            "The connection string is not complete: it must have "
            "Endpoint=sb://HOST:PORT, SharedAccessKeyName and SharedAccessKey.",
            exit_codes.USAGE,
        )
    return ServerAddress(
        host=host, port=port, is_tls=is_tls, key_name=key_name, key=key
    )


def server_address(
    connection_string: str | None,
    config: Config,
    environment: Mapping[str, str],
) -> ServerAddress:
    """The server that is meant; a connection string goes first. Raises Failure."""
    text = connection_string or environment.get(CONNECTION_STRING_VARIABLE)
    if text:
        return parse_connection_string(text)
    return ServerAddress(
        host="localhost",
        port=config.port,
        is_tls=False,
        key_name=ROOT_KEY_NAME,
        key=config.key or _kept_key(config.data),
    )


def _kept_key(data: Path) -> str:
    file = data / "root-key"
    try:
        return file.read_text().strip()
    except OSError as error:
        raise Failure(
            f"The server's key is not known: {file}: {os.strerror(error.errno or 0)}. "
            "Give the server's data folder with --data, or --connection-string.",
            exit_codes.USAGE,
        ) from None
