"""Checks the credentials of both sides before anything is sent (P1).

It opens links and sends nothing. The primary may be away, because a pair is made for
that; then its credentials cannot be checked. The secondary has to answer.

A syphon needs more rights than a sender: to listen to the backlog queues, and to send
to the entities that it covers. What is missing is an error now. Otherwise there would
be a backlog later that nobody can bring back.
"""

import re
from collections.abc import Coroutine, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from azure.core.credentials import AzureSasCredential

from twinbus.pairing.failures import (
    ASKS_FOR_PATIENCE,
    REFUSED,
    UNANSWERED,
    FailureKind,
)
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.sdk.explaining import explained
from twinbus.pairing.sdk.namespace import SdkNamespace
from twinbus.sdk_internals import clients

_NOBODYS_ENTITY: Final = "x-servicebus-transfer"
"""The entity to ask for if none is known. It does not exist, because the paths of
backlog queues are longer; a namespace says so only to a client with a good key."""

_MOST_ASKED: Final = 5
"""How many entities of the primary are tried; each needs a connection of its own."""

_QUEUES_OWN: Final = frozenset(
    (FailureKind.DISABLED, FailureKind.QUOTA, *ASKS_FOR_PATIENCE)
)
"""Failures of a single backlog queue, which the rotation of queues deals with (P8)."""


async def check_primary(
    primary: SdkNamespace, timeout_seconds: float, entities: Sequence[str] = ()
) -> None:
    """Raises the SDK's error if the credentials are refused, and only then. `entities`
    are those that a syphon will send to, as far as they are known."""
    for path in entities[:_MOST_ASKED] or [_entity_to_ask(primary.client)]:
        try:
            await _open(primary, path, timeout_seconds)
        except Exception as error:
            kind = kind_of(error)
            if kind in REFUSED:
                about = f"The primary '{primary.name}' refuses its client"
                raise explained(error, about) from error.__cause__
            if kind in UNANSWERED:
                return


async def check_secondary(
    secondary: SdkNamespace,
    queues: Sequence[str],
    timeout_seconds: float,
    *,
    listens: bool,
) -> None:
    """Raises the SDK's error if backlog queues cannot be sent to or, where a syphon
    will run, received from. If the client has one key for all queues, one is tried."""
    is_for_all = _scope_of(secondary.client) is None
    for queue in queues[:1] if is_for_all else queues:
        about = (
            f"The backlog queue '{queue}' on the secondary '{secondary.name}' cannot be"
        )
        await _check(_open(secondary, queue, timeout_seconds), f"{about} sent to")
        if listens:
            await _check(
                _peek(secondary, queue, timeout_seconds),
                f"{about} received from, which the syphon needs (the Listen right)",
            )


async def _check(attempt: Coroutine[Any, Any, None], about: str) -> None:
    try:
        await attempt
    except Exception as error:
        if kind_of(error) not in _QUEUES_OWN:
            raise explained(error, about) from error.__cause__


async def _peek(namespace: SdkNamespace, path: str, timeout_seconds: float) -> None:
    """Peek at a queue: this needs the right to receive, and takes nothing out."""
    door = namespace.door(path)
    try:
        await door.peek(0, 1, timeout_seconds)
    finally:
        await door.close()


async def _open(namespace: SdkNamespace, path: str, timeout_seconds: float) -> None:
    door = namespace.door(path)
    try:
        await door.open(timeout_seconds)
    finally:
        await door.close()


def _entity_to_ask(client: Any) -> str:
    """The only entity that the credential is good for, if there is just one."""
    return _scope_of(client) or _NOBODYS_ENTITY


def _scope_of(client: Any) -> str | None:
    """The part of the namespace that the client is good for; None for all of it."""
    named = clients.entity_of(client)
    if named is not None:
        return named
    credential = clients.credential_of(client)
    if isinstance(credential, AzureSasCredential):
        return entity_of_token(credential.signature)
    return entity_of_token(clients.signature_of(credential) or "")


def entity_of_token(token: str) -> str | None:
    """The entity that a shared access signature is for; None for a namespace."""
    resource = re.search(r"(?:^|[ &])sr=([^&]*)", token)
    if resource is None:
        return None
    return urlsplit(unquote(resource[1])).path.strip("/") or None
