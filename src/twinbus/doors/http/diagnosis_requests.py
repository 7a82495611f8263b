"""`POST /$diagnosis`: writes a diagnosis, and says where it is.

It needs the Manage claim of the namespace. The answer names a folder on the server; its
content is not sent to anybody.
"""

import os
from collections.abc import Callable
from pathlib import Path

from twinbus.auth.claims import Claim
from twinbus.clock import Clock
from twinbus.doors.http.administration.authorization import require_claim
from twinbus.doors.http.json_response import json_refusal, json_response
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.entities.namespace import Namespace
from twinbus.errors import ArgumentError, InternalError, ServiceBusError


class DiagnosisRequests:
    """Answers these requests for one namespace."""

    def __init__(
        self, namespace: Namespace, clock: Clock, write: Callable[[], Path]
    ) -> None:
        self._namespace = namespace
        self._clock = clock
        # Writes it and returns its folder. Raises OSError.
        self._write = write

    async def answer(self, request: HttpRequest) -> HttpResponse:
        policy, now = self._namespace.policy, self._clock.now()
        try:
            require_claim(request, Claim.MANAGE, policy, "", now)
        except ServiceBusError as error:
            return json_refusal(error)
        if request.method != "POST":
            return json_refusal(ArgumentError("Use POST."), status=405)
        try:
            return json_response({"folder": str(self._write())}, 201)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            return json_refusal(
                InternalError(f"The diagnosis can't be written: {why}.")
            )
