"""An administration interface just good enough to check the shim against.

It keeps the descriptions it is given, lists them, checks SAS tokens and notes each
request. It validates nothing: it is no model of Service Bus.
"""

import base64
import hashlib
import hmac
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

_ATOM = "http://www.w3.org/2005/Atom"
_SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
_KINDS = {
    "$resources/queues": "QueueDescription",
    "$resources/topics": "TopicDescription",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the fake was asked, and what is wrong with the token."""

    method: str
    path: str
    host: str
    if_match: str | None
    kind: str
    options: dict[str, str]
    rights: list[str]
    token_error: str


@dataclass(slots=True, kw_only=True)
class FakeNamespace:
    """Entities by their path in lower case, and the requests so far."""

    key_name: str
    key: str
    port: int = 0
    entities: dict[str, tuple[str, str]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def start(self) -> None:
        """Answer on a free port until the process ends."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def answer(self, request: Request, description: str, query: str) -> tuple[int, str]:
        """Status and body."""
        if request.token_error:
            return 401, _error(401, request.token_error)
        if request.method == "PUT":
            return self._put(request, description)
        if request.method == "DELETE":
            return self._delete(request.path.lower())
        return 200, self._get(request.path.lower(), query)

    def _put(self, request: Request, description: str) -> tuple[int, str]:
        key = request.path.lower()
        exists = key in self.entities
        if exists and not request.if_match:
            return 409, _error(409, "exists")
        self.entities[key] = (request.path, description)
        return 200 if exists else 201, _entry(request.path, description)

    def _delete(self, key: str) -> tuple[int, str]:
        if key not in self.entities:
            return 404, _error(404, "none")
        for other in list(self.entities):
            if other == key or other.startswith(f"{key}/"):
                del self.entities[other]
        return 200, ""

    def _get(self, key: str, query: str) -> str:
        if key in self.entities:
            return _entry(*self.entities[key])
        found = sorted(self._listed(key))
        values = parse_qs(query)
        skip = int(values.get("$skip", ["0"])[0])
        top = int(values.get("$top", ["100"])[0])
        # An entity that is not there is an empty feed, as on the real service.
        entries = "".join(_entry(*item) for item in found[skip : skip + top])
        return f'<feed xmlns="{_ATOM}"><title>feed</title>{entries}</feed>'

    def _listed(self, key: str) -> list[tuple[str, str]]:
        if key in _KINDS:
            return [item for item in self.entities.values() if _KINDS[key] in item[1]]
        below = [path for path in self.entities if path.startswith(f"{key}/")]
        return [self.entities[path] for path in below]


def _entry(path: str, description: str) -> str:
    name = path.rsplit("/", 1)[-1] if "/subscriptions/" in path.lower() else path
    moment = "2024-01-01T00:00:00Z"
    return (
        f'<entry xmlns="{_ATOM}"><id>{path}</id><title type="text">{name}</title>'
        f"<published>{moment}</published><updated>{moment}</updated>"
        f'<content type="application/xml">{description}</content></entry>'
    )


def _error(code: int, detail: str) -> str:
    return f"<Error><Code>{code}</Code><Detail>{detail}</Detail></Error>"


def _token_error(header: str, namespace: FakeNamespace) -> str:
    scheme, _, token = header.partition(" ")
    if scheme != "SharedAccessSignature":
        return "no SAS token"
    fields = dict(part.split("=", 1) for part in token.split("&"))
    if unquote(fields.get("skn", "")) != namespace.key_name:
        return f"unknown key name {fields.get('skn')}"
    if int(fields["se"]) < time.time():
        return "expired"
    signed = f"{fields['sr']}\n{fields['se']}".encode()
    digest = hmac.new(namespace.key.encode(), signed, hashlib.sha256).digest()
    is_signed = unquote(fields["sig"]) == base64.b64encode(digest).decode()
    return "" if is_signed else "bad signature"


def _local_name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _described(body: bytes) -> ElementTree.Element | None:
    """The description that an entry has as its content."""
    if not body:
        return None
    content = ElementTree.fromstring(body).find(f"{{{_ATOM}}}content")
    return content[0] if content is not None else None


def _handler_of(namespace: FakeNamespace) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Turns requests into calls of the namespace."""

        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Silent: requests are kept, not printed."""

        def _answer(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            element = _described(body)
            request = self._request(unquote(url.path).strip("/"), element)
            namespace.requests.append(request)
            description = ""
            if element is not None:
                description = ElementTree.tostring(element, encoding="unicode")
            self._reply(*namespace.answer(request, description, url.query))

        def _request(
            self, path: str, description: ElementTree.Element | None
        ) -> Request:
            parts = [] if description is None else list(description.iter())
            return Request(
                method=self.command,
                path=path,
                host=self.headers.get("Host", ""),
                if_match=self.headers.get("If-Match"),
                kind="" if description is None else _local_name(description),
                options={
                    _local_name(e): e.text for e in parts if not len(e) and e.text
                },
                rights=[
                    e.text or ""
                    for e in parts
                    if e.tag == f"{{{_SERVICE_BUS}}}AccessRights"
                ],
                token_error=_token_error(
                    self.headers.get("Authorization", ""), namespace
                ),
            )

        def _reply(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/atom+xml;charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_DELETE = _answer

    return Handler
