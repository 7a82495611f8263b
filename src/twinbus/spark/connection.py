"""The options that say where a namespace is, and with which credential to connect.

    credential        env:NAME or file:/PATH: where the connection string is
    connectionString  the connection string itself
    namespace         the address of the bus's HTTP listener, if it is not that of the
                      connection string: http://HOST:PORT or https://HOST:PORT
    caFile            certificates to trust instead of the system's authorities

Picklable, and without a secret in it unless the user gave one as an option.
"""

import http.client
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from twinbus.client.connection_string import (
    ConnectionStringError,
    parse_connection_string,
)
from twinbus.client.credentials import token_source
from twinbus.clock import SystemClock
from twinbus.spark.option_reader import OptionError, OptionReader
from twinbus.spark.secret import Secret, SecretError

CONNECTION_OPTIONS: Final = ("credential", "connectionString", "namespace", "caFile")

_TOKEN_MS: Final = 3_600_000
"""After which a signature that was given is read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConnection:
    """One namespace."""

    secret: Secret
    # Of the HTTP listener, if the connection string does not say it.
    url: str | None = None
    ca_file: str | None = None

    def open(self) -> "OpenConnection":
        """Read the secret, here and now. Raises SecretError, OptionError."""
        if self.ca_file is not None:
            self.tls()
        return OpenConnection(self)

    def tls(self) -> ssl.SSLContext:
        """The authorities to trust, read on this host. Raises OptionError."""
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise OptionError(
                f"'caFile' is '{self.ca_file}', which cannot be read as certificates "
                f"on this host: {error}. It must be there on the driver and on every "
                "executor."
            ) from None


class OpenConnection:
    """A namespace whose secret is known. Never leaves its process."""

    __slots__ = ("_connection", "_tls", "_tokens", "connection_string", "host", "url")

    def __init__(self, connection: SparkConnection) -> None:
        self._connection = connection
        # Made when it is first needed.
        self._tls: ssl.SSLContext | None = None
        self.connection_string = connection.secret.reveal()
        try:
            parsed = parse_connection_string(self.connection_string)
        except ConnectionStringError as error:
            raise SecretError(str(error)) from None
        self.host = parsed.host
        scheme = "https" if parsed.is_tls else "http"
        self.url = connection.url or f"{scheme}://{parsed.address}"
        # For the whole namespace, also if the text has an EntityPath.
        self._tokens = token_source(parsed, SystemClock())

    def __repr__(self) -> str:
        return f"OpenConnection({self.url})"

    def http_client(self, timeout_seconds: float) -> http.client.HTTPConnection:
        """For the HTTP listener; connects when it is first used."""
        url = urlsplit(self.url)
        host, port = url.hostname or "", url.port
        if url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout_seconds)
        self._tls = self._tls or self._connection.tls()
        return http.client.HTTPSConnection(
            host, port, timeout=timeout_seconds, context=self._tls
        )

    def token(self) -> tuple[str, int]:
        """A shared access signature for the namespace, and when to ask for another, in
        milliseconds since the epoch."""
        token = self._tokens.token()
        return token.text, token.expires_at or SystemClock().now() + _TOKEN_MS


def read_connection(options: OptionReader) -> SparkConnection:
    """Raises OptionError."""
    reference, text = options.text("credential"), options.text("connectionString")
    if (reference is None) == (text is None):
        raise OptionError(
            "Give either 'credential' (env:NAME or file:/PATH, where the connection "
            "string is) or 'connectionString'."
        )
    try:
        secret = (
            Secret(text=text)
            if reference is None
            else Secret.parse("credential", reference)
        )
    except SecretError as error:
        raise OptionError(str(error)) from None
    connection = SparkConnection(
        secret=secret,
        url=_url(options.text("namespace")),
        ca_file=options.text("caFile"),
    )
    if connection.ca_file is not None:
        connection.tls()
    return connection


def _url(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        url = urlsplit(text)
        is_right = url.scheme in ("http", "https") and url.hostname and not url.query
        is_right = is_right and url.path in ("", "/") and "@" not in url.netloc
        port = url.port
    except ValueError:
        is_right, port = False, None
    if not is_right:
        # The text is not repeated: somebody may have put a credential into it.
        raise OptionError(
            "'namespace' must be the address of the bus, such as "
            "https://bus.example:5300, and nothing else: no key, no path."
        )
    assert url.hostname is not None
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return f"{url.scheme}://{host}:{port or (443 if url.scheme == 'https' else 80)}"
