"""Where a namespace is, and what proves the right to it.

A connection string says both; an application that has a credential gives it instead.
"""

import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from twinbus.clock import Clock, SystemClock
from twinbus.pairing.own.credentials import FixedToken, SharedKey, TokenSource

_PLAIN_PORT: Final = 5672
_TLS_PORT: Final = 5671


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceAddress:
    """One namespace, reached over AMQP."""

    host: str
    port: int
    tokens: TokenSource = field(repr=False)
    # None: plain TCP.
    tls: ssl.SSLContext | None = None

    @property
    def name(self) -> str:
        """As it stands in a ledger: the host, without what may differ by client."""
        return self.host.lower()

    @property
    def text(self) -> str:
        """For messages: never has a secret."""
        return f"{self.host}:{self.port}"


def parse_address(
    connection_string: str,
    *,
    tls: ssl.SSLContext | None = None,
    clock: Clock | None = None,
) -> NamespaceAddress:
    """The namespace that a connection string means; `tls` instead of the usual trust.

    Raises ValueError, with nothing of the text in it.
    """
    parts = connection_parts(connection_string)
    is_plain = parts.get("usedevelopmentemulator", "").lower() == "true"
    try:
        endpoint = urlsplit(parts.get("endpoint", ""))
        host = endpoint.hostname or ""
        port = endpoint.port or (_PLAIN_PORT if is_plain else _TLS_PORT)
    except ValueError:
        host, port = "", 0
    key_name = parts.get("sharedaccesskeyname", "")
    key = parts.get("sharedaccesskey", "")
    signature = parts.get("sharedaccesssignature", "")
    if not host or not (signature or (key_name and key)):
        raise ValueError(
            "The connection string is not complete: it must have Endpoint=sb://HOST, "
            "and SharedAccessKeyName and SharedAccessKey, or SharedAccessSignature."
        )
    tokens: TokenSource = FixedToken(signature)
    if not signature:
        # A key of an entity's own rule, if one is named.
        scope = parts.get("entitypath", "").strip("/")
        tokens = SharedKey(host, key_name, key, clock or SystemClock(), scope)
    context = None if is_plain else tls or ssl.create_default_context()
    return NamespaceAddress(host=host, port=port, tokens=tokens, tls=context)


def connection_parts(connection_string: str) -> dict[str, str]:
    """The parts of a connection string by their names in lower case."""
    parts: dict[str, str] = {}
    for part in filter(None, connection_string.strip().split(";")):
        name, _, value = part.partition("=")
        parts[name.strip().lower()] = value.strip()
    return parts
