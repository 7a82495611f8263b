"""`POST /$diagnosis`: writes a diagnosis, and says where it is.

It needs the Manage claim of the namespace. The answer names a folder on the server; its
content is not sent to anybody. With several brokers each writes one, into its own data
folder: `brokers` in the answer has the folders by the names of brokers, and `missing`
those that have written none.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twinbus.auth.claims import Claim
from twinbus.clock import Clock
from twinbus.doors.http.administration.authorization import require_claim
from twinbus.doors.http.fellow_brokers import DIAGNOSE, FellowBrokers, missing
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
        # None: this is the only broker.
        self.others: FellowBrokers | None = None

    async def answer(self, request: HttpRequest) -> HttpResponse:
        policy, now = self._namespace.policy, self._clock.now()
        try:
            require_claim(request, Claim.MANAGE, policy, "", now)
        except ServiceBusError as error:
            return json_refusal(error)
        if request.method != "POST":
            return json_refusal(ArgumentError("Use POST."), status=405)
        try:
            return json_response(await self._written(), 201)
        except ServiceBusError as error:
            return json_refusal(error)

    def write(self) -> dict[str, Any]:
        """Of this broker. Raises InternalError."""
        try:
            return {"folder": str(self._write())}
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise InternalError(f"The diagnosis can't be written: {why}.") from None

    async def _written(self) -> dict[str, Any]:
        """Raises InternalError."""
        own = self.write()
        if self.others is None:
            return own
        answers = await self.others.ask_all(DIAGNOSE, {})
        folders = {self.others.own_name: own["folder"]}
        for one in answers:
            if one.content is not None:
                folders[one.broker] = one.content["folder"]
        return {**own, "brokers": folders, "missing": missing(answers)}
