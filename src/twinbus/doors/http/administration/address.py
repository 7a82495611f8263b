"""The URLs of entries, with the host name that the client used."""

from dataclasses import dataclass
from urllib.parse import quote

from twinbus.doors.http.request import HttpRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The host that the client used, and its version of the API."""

    # Scheme and host, such as `https://bus.local:5672`.
    root: str
    api_version: str

    @classmethod
    def of(cls, request: HttpRequest) -> "Address":
        version = request.query.get("api-version", "2021-05")
        return cls(root=request.root, api_version=version)

    def to(self, path: str, query: str = "") -> str:
        """The URL of a resource. '$' is not escaped: JavaScript takes the names of
        rules from the URL without decoding, and every subscription has a rule
        `$Default` at first."""
        return f"{self.root}/{quote(path, safe='/$')}?{query}{self._version}"

    @property
    def _version(self) -> str:
        return f"api-version={quote(self.api_version)}"

    def forward_target(self, target: str) -> str:
        """A forward target as clients expect it: always a URI."""
        if not target or "://" in target:
            return target
        return f"sb://{self.root.partition('://')[2]}/{target}"
