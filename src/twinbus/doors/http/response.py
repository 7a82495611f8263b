"""An HTTP response, before it is framed."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response; the connection adds its length."""

    status: int
    body: bytes = b""
    # Names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict)


def text_response(status: int, text: str) -> HttpResponse:
    """A text for people, as shown by a browser or curl."""
    return HttpResponse(
        status=status,
        body=f"{text}\n".encode(),
        headers={"content-type": "text/plain; charset=utf-8"},
    )
