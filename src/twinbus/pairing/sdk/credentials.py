"""Are the credentials of both sides good? Found out before anything is sent (P1).

A link is opened and nothing is sent over it. The primary may be away, which is what a
pair is for; then its credentials are not known to be bad. The secondary must answer.

A syphon needs more rights than a sender: to listen to the backlog queues, and to send
to the entities that it covers. What can be known of that now is an error now, and not
a backlog that nobody brings back.
"""

import re
from collections.abc import Coroutine, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from azure.core.credentials import AzureSasCredential

from twinbus.pairing.failures import ASKS_FOR_PATIENCE, FailureKind
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.sdk.explaining import explained
from twinbus.pairing.sdk.namespace import SdkNamespace
from twinbus.sdk_internals import clients

_NOBODYS_ENTITY: Final = "x-servicebus-transfer"
"""Asked for where no entity is known. It does not exist, and only who has a good key is
told so: backlog queues are below a path of another name."""

_REFUSED: Final = frozenset((FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION))

_UNANSWERED: Final = frozenset(
    (FailureKind.TIMEOUT, FailureKind.CONNECTION, FailureKind.COMMUNICATION)
)

_MOST_ASKED: Final = 5
"""Entities of the primary that are asked; each takes a connection of its own."""

_QUEUES_OWN: Final = frozenset(
    (FailureKind.DISABLED, FailureKind.QUOTA, *ASKS_FOR_PATIENCE)
)
"""Trouble of a single backlog queue: the rotation of queues is for that (P8)."""


async def check_primary(
    primary: SdkNamespace, timeout_seconds: float, entities: Sequence[str] = ()
) -> None:
    """Raises the SDK's error if the credentials are refused, and only then; `entities`
    are those that a syphon is to send to, as far as they are known."""
    for path in entities[:_MOST_ASKED] or [_entity_to_ask(primary.client)]:
        try:
            await _open(primary, path, timeout_seconds)
        except Exception as error:
            kind = kind_of(error)
            if kind in _REFUSED:
                about = f"The primary '{primary.name}' refuses its client"
                raise explained(error, about) from error.__cause__
            if kind in _UNANSWERED:
                return


async def check_secondary(
    secondary: SdkNamespace,
    queues: Sequence[str],
    timeout_seconds: float,
    *,
    listens: bool,
) -> None:
    """Raises the SDK's error if backlog queues cannot be sent to or, where a syphon is
    to run, listened to. One of them stands for all, if the client has one key for all
    of them."""
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
    """Look into a queue, which takes nothing out and needs the right to receive."""
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
    """One that the credential is good for, if it is good for one alone."""
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
