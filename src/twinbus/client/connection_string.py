"""Connection strings: the one place that reads and writes them.

    Endpoint=sb://HOST:PORT/;SharedAccessKeyName=NAME;SharedAccessKey=KEY
    Endpoint=sb://HOST:PORT/;SharedAccessSignature=TOKEN

The port may be left out. `UseDevelopmentEmulator=true` asks for plain TCP instead of
TLS, and `EntityPath` names the only entity that the key is for. The names of parts may
be in any letter case; parts that are not known are ignored, as the SDKs do.

A connection string is a secret: errors repeat nothing of it, and `repr` shows neither
key nor signature.
"""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

TLS_PORT: Final = 5671
PLAIN_PORT: Final = 5672

_NEEDED: Final = (
    "It must have Endpoint=sb://HOST, and either SharedAccessKeyName and "
    "SharedAccessKey, or SharedAccessSignature."
)


class ConnectionStringError(ValueError):
    """A connection string cannot be used; the text says why, without its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionString:
    """What a connection string says: where a namespace is, and a right to it."""

    host: str
    port: int
    is_tls: bool
    # Either these two, or a signature.
    key_name: str = ""
    key: str = field(default="", repr=False)
    signature: str = field(default="", repr=False)
    # Empty: the whole namespace.
    entity_path: str = ""

    @property
    def address(self) -> str:
        """Host and port, for messages and URLs: has no secret."""
        return host_and_port(self.host, self.port)

    def reveal(self) -> str:
        """The text, for the SDK. It has the secret, and is never shown."""
        parts = {
            "Endpoint": f"sb://{self.address}",
            "SharedAccessKeyName": self.key_name,
            "SharedAccessKey": self.key,
            "SharedAccessSignature": self.signature,
            "UseDevelopmentEmulator": "" if self.is_tls else "true",
            "EntityPath": self.entity_path,
        }
        return "".join(f"{name}={value};" for name, value in parts.items() if value)


def host_and_port(host: str, port: int) -> str:
    """As in a URL: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_connection_string(text: str) -> ConnectionString:
    """Raises ConnectionStringError."""
    parts = _parts(text)
    is_tls = parts.get("usedevelopmentemulator", "").lower() != "true"
    host, port = _endpoint(parts.get("endpoint", ""))
    signature = parts.get("sharedaccesssignature", "")
    key_name = parts.get("sharedaccesskeyname", "")
    key = parts.get("sharedaccesskey", "")
    if not signature and not key_name:
        raise _incomplete("SharedAccessKeyName is missing")
    if not signature and not key:
        raise _incomplete("SharedAccessKey is missing")
    return ConnectionString(
        host=host,
        port=port or (TLS_PORT if is_tls else PLAIN_PORT),
        is_tls=is_tls,
        key_name=key_name,
        key=key,
        signature=signature,
        entity_path=parts.get("entitypath", "").strip("/"),
    )


def _parts(text: str) -> dict[str, str]:
    """The parts by their names in lower case."""
    parts: dict[str, str] = {}
    for part in text.split(";"):
        name, _, value = part.partition("=")
        parts[name.strip().lower()] = value.strip()
    return parts


def _endpoint(text: str) -> tuple[str, int | None]:
    """Host, and port if there is one."""
    if not text:
        raise _incomplete("Endpoint is missing")
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError:
        host = None
    if not host:
        raise _incomplete("its Endpoint has no host, or no valid port")
    return host, port


def _incomplete(what: str) -> ConnectionStringError:
    return ConnectionStringError(
        f"The connection string is not complete: {what}. {_NEEDED}"
    )
