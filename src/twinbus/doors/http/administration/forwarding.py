"""Checks the forward targets of a request that creates or updates an entity."""

from collections.abc import Mapping
from typing import Any

from twinbus.broker.descriptions.forward_path import forward_path
from twinbus.doors.http.administration.authorization import (
    FORWARDING_HEADERS,
    require_send,
)
from twinbus.doors.http.administration.refusal import Refusal
from twinbus.doors.http.request import HttpRequest
from twinbus.entities.namespace import Namespace
from twinbus.errors import MessagingEntityNotFound


def check_forwarding(
    request: HttpRequest,
    properties: Mapping[str, Any],
    namespace: Namespace,
    own_path: str,
    now: int,
) -> None:
    """The targets must exist, and the client must be allowed to send to them.

    Raises Refusal, AuthenticationFailed, UnauthorizedAccess.
    """
    for name, header in FORWARDING_HEADERS.items():
        target = forward_path(properties.get(name, ""))
        if not target:
            continue
        require_send(request, header, namespace.policy, target, now)
        if target.lower() != own_path.lower() and not _exists(namespace, target):
            raise Refusal(
                400,
                f"The {name} of '{own_path}' is '{target}', and there is no queue or "
                "topic with that path. Create it first.",
                sub_code=40400,
            )


def _exists(namespace: Namespace, path: str) -> bool:
    for look_up in (namespace.queue, namespace.topic):
        try:
            look_up(path)
        except MessagingEntityNotFound:
            continue
        return True
    return False
