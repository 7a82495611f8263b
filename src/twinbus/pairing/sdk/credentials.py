"""Are the credentials of both sides good? Found out before anything is sent (P1).

A link is opened and nothing is sent over it. The primary may be away, which is what a
pair is for; then its credentials are not known to be bad. The secondary must answer.
"""

import re
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from twinbus.pairing.failures import FailureKind
from twinbus.pairing.sdk import internals
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.sdk.namespace import SdkNamespace

_NOBODYS_ENTITY: Final = "x-servicebus-transfer"
"""Asked for where no entity is known. It does not exist, and only who has a good key is
told so: backlog queues are below a path of another name."""

_REFUSED: Final = frozenset((FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION))

_QUEUES_OWN: Final = frozenset(
    (FailureKind.DISABLED, FailureKind.QUOTA, FailureKind.BUSY)
)
"""Trouble of a single backlog queue: the rotation of queues is for that (P8)."""


async def check_primary(primary: SdkNamespace, timeout_seconds: float) -> None:
    """Raises the SDK's error if the credentials are refused, and only then."""
    try:
        await _open(primary, _entity_to_ask(primary.client), timeout_seconds)
    except Exception as error:
        if kind_of(error) in _REFUSED:
            error.add_note(f"The primary '{primary.name}' refused its credentials.")
            raise


async def check_secondary(
    secondary: SdkNamespace, queue: str, timeout_seconds: float
) -> None:
    """Raises the SDK's error if its backlog queues cannot be sent to."""
    try:
        await _open(secondary, queue, timeout_seconds)
    except Exception as error:
        if kind_of(error) not in _QUEUES_OWN:
            error.add_note(
                f"The backlog queue '{queue}' on the secondary '{secondary.name}' "
                "cannot be sent to."
            )
            raise


async def _open(namespace: SdkNamespace, path: str, timeout_seconds: float) -> None:
    door = namespace.door(path)
    try:
        await door.open(timeout_seconds)
    finally:
        await door.close()


def _entity_to_ask(client: Any) -> str:
    """One that the credential is good for, if it is good for one alone."""
    named = internals.entity_of(client)
    if named is not None:
        return named
    token = getattr(internals.credential_of(client), "token", "")
    return entity_of_token(token) or _NOBODYS_ENTITY


def entity_of_token(token: str) -> str | None:
    """The entity that a shared access signature is for; None for a namespace."""
    resource = re.search(r"(?:^|[ &])sr=([^&]*)", token)
    if resource is None:
        return None
    return urlsplit(unquote(resource[1])).path.strip("/") or None
