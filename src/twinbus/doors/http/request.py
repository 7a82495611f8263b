"""An HTTP request that was received completely."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from twinbus.doors.arrived_at import ArrivedAt
from twinbus.doors.http.keep_alive import KeepAlive
from twinbus.doors.visitor import Visitor


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request; its content is not trusted."""

    method: str
    # Path and query, percent-encoded, as received.
    target: str
    # By lower-case name; repeated headers are joined with commas.
    headers: Mapping[str, str]
    body: bytes = b""
    is_secure: bool = False
    # Names of headers as they were written, by lower-case name.
    names: Mapping[str, str] = field(default_factory=dict)
    connection: KeepAlive = field(default_factory=KeepAlive)
    # Who has sent it.
    visitor: Visitor = field(default_factory=Visitor)
    arrived: ArrivedAt = field(default_factory=ArrivedAt)
    # Neither this request nor an earlier one of its connection has shown a key.
    is_of_stranger: bool = False

    @property
    def encoded_path(self) -> str:
        """The path as received, without slashes at both ends."""
        target = self.target.partition("?")[0]
        # Proxies send the whole URL. In a path the same characters are a part of it.
        if not target.startswith("/") and "://" in target:
            target = "/" + target.partition("://")[2].partition("/")[2]
        return target.strip("/")

    @property
    def path(self) -> str:
        """The decoded path, without slashes at both ends."""
        return unquote(self.encoded_path).strip("/")

    @property
    def query(self) -> dict[str, str]:
        """Decoded values by lower-case name; the last one if repeated."""
        pairs = parse_qsl(self.target.partition("?")[2], keep_blank_values=True)
        return {name.lower(): value for name, value in pairs}

    @property
    def root(self) -> str:
        """Scheme and host that the client used."""
        scheme = "https" if self.is_secure else "http"
        host = self.headers.get("host", "localhost")
        # Headers of responses, where it is repeated, are ASCII.
        return f"{scheme}://{host.encode('ascii', 'replace').decode()}"
