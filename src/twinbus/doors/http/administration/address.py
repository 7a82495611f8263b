"""The addresses of entries: how a client that made a request knows the server."""

from dataclasses import dataclass
from urllib.parse import quote

from twinbus.doors.http.request import HttpRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the client found us, and which version of the API it speaks."""

    # Scheme and host, such as `https://bus.local:5672`.
    root: str
    api_version: str

    @classmethod
    def of(cls, request: HttpRequest) -> "Address":
        version = request.query.get("api-version", "2021-05")
        return cls(root=request.root, api_version=version)

    def to(self, path: str, query: str = "") -> str:
        """The URL of a resource. JavaScript takes the names of rules from it as it is
        written, and the first rule of every subscription is `$Default`."""
        return f"{self.root}/{quote(path, safe='/$')}?{query}{self._version}"

    @property
    def _version(self) -> str:
        return f"api-version={quote(self.api_version)}"

    def forward_target(self, target: str) -> str:
        """A forward target as clients expect it: always a URI."""
        if not target or "://" in target:
            return target
        return f"sb://{self.root.partition('://')[2]}/{target}"
