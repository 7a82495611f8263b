"""An HTTP request that was read to its end, as those see it who answer it."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request. It came from a stranger, as did everything in it."""

    method: str
    # Path and query, percent-encoded, as they came.
    target: str
    # By lower-case name; what was repeated is joined with commas.
    headers: Mapping[str, str]
    body: bytes = b""
    is_secure: bool = False

    @property
    def path(self) -> str:
        """Decoded, without slashes at its ends."""
        target = self.target.partition("?")[0]
        # Proxies ask for the whole URL.
        if "://" in target:
            target = "/" + target.partition("://")[2].partition("/")[2]
        return unquote(target).strip("/")

    @property
    def query(self) -> dict[str, str]:
        """Names in lower case, decoded; of several values the last."""
        pairs = parse_qsl(self.target.partition("?")[2], keep_blank_values=True)
        return {name.lower(): value for name, value in pairs}

    @property
    def root(self) -> str:
        """Scheme and host by which the client knows the server."""
        scheme = "https" if self.is_secure else "http"
        return f"{scheme}://{self.headers.get('host', 'localhost')}"
