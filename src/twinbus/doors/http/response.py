"""An HTTP response, before it is framed for the wire."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response; its length is added by the connection."""

    status: int
    body: bytes = b""
    # Names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict)


def text_response(status: int, text: str) -> HttpResponse:
    """For people: what a browser or curl shows."""
    return HttpResponse(
        status=status,
        body=f"{text}\n".encode(),
        headers={"content-type": "text/plain; charset=utf-8"},
    )
