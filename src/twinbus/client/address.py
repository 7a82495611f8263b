"""Where a namespace is, whom to trust there, and what proves the right to it.

It comes from a connection string, or from a client of the vendor's SDK, which has a
credential instead (`pairing/sdk_syphon/addresses.py`).
"""

import ssl
from dataclasses import dataclass, field

from twinbus.client.connection_string import host_and_port, parse_connection_string
from twinbus.client.credentials import TokenSource, token_source
from twinbus.clock import Clock, SystemClock


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
        """The host in lower case: the same for all clients, as a ledger needs it."""
        return self.host.lower()

    @property
    def text(self) -> str:
        """For messages: has no secret."""
        return host_and_port(self.host, self.port)


def parse_address(
    connection_string: str,
    *,
    tls: ssl.SSLContext | None = None,
    clock: Clock | None = None,
) -> NamespaceAddress:
    """The address in a connection string. `tls` replaces the system's authorities.

    Raises ConnectionStringError, a ValueError that repeats nothing of the text.
    """
    parsed = parse_connection_string(connection_string)
    return NamespaceAddress(
        host=parsed.host,
        port=parsed.port,
        tokens=token_source(parsed, clock or SystemClock(), parsed.entity_path),
        tls=(tls or ssl.create_default_context()) if parsed.is_tls else None,
    )
