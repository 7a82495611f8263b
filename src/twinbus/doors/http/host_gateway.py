"""Finds the namespace of each HTTP request: by `Host`, SNI, or the port.

A connection may be used for several namespaces, one after the other, as proxies do. If
the names contradict each other, the answer is 421: such a client should connect anew.
"""

from collections.abc import Callable
from typing import Final

from twinbus.doors.http.http_connection import Responder
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.entities.namespace import Namespace
from twinbus.entities.namespaces import Namespaces
from twinbus.errors import NotAllowed
from twinbus.limits import ENTITY_REQUEST_BYTES

_MISDIRECTED: Final = 421


class HostGateway:
    """Answers the HTTP requests of all connections, for all namespaces."""

    def __init__(
        self, namespaces: Namespaces, gateway_of: Callable[[Namespace], Responder]
    ) -> None:
        self._namespaces = namespaces
        self._gateway_of = gateway_of

    def shows_key(self, request: HttpRequest) -> bool:
        found = self._find(request)
        return not isinstance(found, HttpResponse) and found.shows_key(request)

    def max_body_bytes(self, request: HttpRequest) -> int:
        found = self._find(request)
        if isinstance(found, HttpResponse):
            return ENTITY_REQUEST_BYTES
        return found.max_body_bytes(request)

    def too_large(self, request: HttpRequest, text: str) -> HttpResponse:
        found = self._find(request)
        if isinstance(found, HttpResponse):
            return found
        return found.too_large(request, text)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        found = self._find(request)
        if isinstance(found, HttpResponse):
            return found
        return await found.answer(request)

    def name_of(self, request: HttpRequest) -> str:
        """The name of the namespace that is meant; the default one if that is not
        clear, because then the request is refused."""
        try:
            return namespace_of(request, self._namespaces).name
        except NotAllowed:
            return self._namespaces.default.name

    def _find(self, request: HttpRequest) -> Responder | HttpResponse:
        """The gateway of the namespace that is meant, or a refusal."""
        try:
            namespace = namespace_of(request, self._namespaces)
        except NotAllowed as error:
            return text_response(_MISDIRECTED, error.text)
        is_default = namespace is self._namespaces.default
        request.visitor.namespace = "" if is_default else namespace.name
        return self._gateway_of(namespace)


def namespace_of(request: HttpRequest, namespaces: Namespaces) -> Namespace:
    """Raises NotAllowed."""
    arrived = request.arrived
    hosts = (request.headers.get("host"), *arrived.hosts)
    return namespaces.meant_by(hosts, arrived.port)
