"""A namespace of commands about pairs. They use the vendor's SDK, so it may be of any
kind. Errors become a Failure that names the namespace.

The administration client speaks HTTPS only; `SSL_CERT_FILE` names a file with the
authority of a bus that made its own. Nothing is retried: a command reports the present
state, and fast.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from azure.core.exceptions import AzureError
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.pairing.failures import REFUSED, UNANSWERED, FailureKind
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.sdk.explaining import distrust_of
from twinbus.pairing.sdk.explaining import reason_of as explained_by
from twinbus.sdk_internals import links

PATIENCE_SECONDS: Final = 30.0
"""For all requests to a namespace; a healthy one answers within a second."""

PROBE_SECONDS: Final = 10.0
_PROBED: Final = "x-servicebus-transfer"
"""An entity that does not have to exist: "not found" is an answer, too."""

# The error itself has the same text, and the command prints it once.
logging.getLogger("azure").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkSide:
    """A namespace, with both clients of the SDK."""

    # Its name in texts: "The secondary".
    role: str
    client: Any
    administration: Any

    @property
    def host(self) -> str:
        return str(self.client.fully_qualified_namespace)


@asynccontextmanager
async def opened(connection_string: str, role: str) -> AsyncIterator[SdkSide]:
    """Its clients, which connect when they are used. Raises Failure."""
    options: dict[str, Any] = {"retry_total": 0}
    if authority := os.environ.get("SSL_CERT_FILE"):
        options["connection_verify"] = authority
    try:
        client = ServiceBusClient.from_connection_string(connection_string, **options)
        administration = ServiceBusAdministrationClient.from_connection_string(
            connection_string, **options
        )
    except ValueError:
        # Its text might repeat what is secret.
        raise Failure(
            f"{role}: the connection string is not complete. It must have "
            "Endpoint=sb://HOST, SharedAccessKeyName and SharedAccessKey.",
            exit_codes.USAGE,
        ) from None
    async with client, administration:
        yield SdkSide(role=role, client=client, administration=administration)


@contextmanager
def told_as_failure(side: SdkSide, entity: str = "") -> Iterator[None]:
    """Turn the SDK's errors into a Failure; `entity` is what the command asks for."""
    try:
        yield
    except (AzureError, OSError) as error:
        raise _failure(error, f"{side.role} {side.host}", entity) from None


def _failure(error: Exception, side: str, entity: str) -> Failure:
    kind, why = kind_of(error), reason_of(error)
    if distrust_of(error) is not None:
        return Failure(f"{side} is not trusted: {why}", exit_codes.UNREACHABLE)
    if kind in REFUSED:
        text = f"{side} refuses the key, or the key lacks a right: {why}"
        return Failure(text, exit_codes.UNAUTHORIZED)
    if kind in UNANSWERED:
        return Failure(f"{side} does not answer: {why}", exit_codes.UNREACHABLE)
    if kind is FailureKind.NOT_FOUND and entity:
        # The SDK's text does not name it.
        return Failure(f"{side} has no entity '{entity}'.", exit_codes.NOT_FOUND)
    return Failure(f"{side}: {why}", exit_codes.FAILED)


def reason_of(error: Exception) -> str:
    """The text in one line, without the tracking id."""
    distrust = distrust_of(error)
    if distrust is not None:
        return (
            f"its certificate does not pass the check ({distrust}). Set SSL_CERT_FILE "
            "to a file with its authority; for a bus of this machine, 'twinbus env' "
            "does. Or correct the host in the connection string."
        )
    text = " ".join(explained_by(error).split()).partition(" TrackingId:")[0]
    return text or type(error).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachability:
    """Whether a namespace answers."""

    is_up: bool
    # Why it does not answer, or what is wrong although it does.
    detail: str = ""


async def reach(side: SdkSide) -> Reachability:
    """Whether the namespace answers over AMQP, which needs no right. It does not tell
    whether an entity takes messages: pings do."""
    sender = side.client.get_queue_sender(_PROBED)
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await links.open_link(sender, PROBE_SECONDS)
    except TimeoutError:
        return Reachability(is_up=False, detail=f"silent for {PROBE_SECONDS:g} seconds")
    except (AzureError, OSError) as error:
        kind = kind_of(error)
        if kind in UNANSWERED or distrust_of(error) is not None:
            return Reachability(is_up=False, detail=reason_of(error))
        return Reachability(
            is_up=True, detail="refuses the key" if kind in REFUSED else ""
        )
    finally:
        await links.abort(sender)
    return Reachability(is_up=True)
