"""Requests of other brokers about this one as a whole.

    POST /$peers/management/NAME    NAME is one of `fellow_brokers.py`

They come on the listener for brokers, with a token of the cluster's key: the broker
that passes one on has checked the claims of its client. They are done here and never
passed on, so they cannot go in circles.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from twinbus.auth.policy import Policy
from twinbus.clock import Clock
from twinbus.doors.http.administration.authorization import shows_key, widest_grant
from twinbus.doors.http.json_response import json_refusal, json_response
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.encoding.json_reading import read_object
from twinbus.errors import ArgumentError, NotSupported, ServiceBusError
from twinbus.limits import ENTITY_REQUEST_BYTES

PREFIX: Final = "$peers/management/"

Action = Callable[[dict[str, Any]], dict[str, Any]]
"""Does what is asked. Raises ServiceBusError."""


class PeerManagement:
    """Answers other brokers."""

    def __init__(
        self, actions: Mapping[str, Action], clock: Clock, policy: Policy
    ) -> None:
        """`policy` accepts the key of the cluster."""
        self._actions = actions
        self._clock = clock
        self._policy = policy

    def shows_key(self, request: HttpRequest) -> bool:
        """The request has a token of the cluster."""
        return shows_key(request, self._policy, self._clock.now())

    def max_body_bytes(self, request: HttpRequest) -> int:
        return ENTITY_REQUEST_BYTES

    def too_large(self, request: HttpRequest, text: str) -> HttpResponse:
        return text_response(413, text)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        try:
            widest_grant(request, self._policy, self._clock.now())
            if request.method != "POST":
                return json_refusal(ArgumentError("Use POST."), status=405)
            content = read_object(request.body, "The body")
            return json_response(self._action(request)(content))
        except ServiceBusError as error:
            return json_refusal(error)

    def _action(self, request: HttpRequest) -> Action:
        name = request.path.removeprefix(PREFIX)
        found = self._actions.get(name)
        if found is None:
            # The other broker may be of a later version.
            raise NotSupported(f"This broker has no request '{name[:60]}'.")
        return found
