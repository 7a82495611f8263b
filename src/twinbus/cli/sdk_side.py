"""A namespace as commands about pairs reach it: by the vendor's SDK, so that it may be
any namespace. Trouble becomes a Failure that names it.

The administration client speaks HTTPS only; `SSL_CERT_FILE` names the authority of a
bus that made its own. Nothing is tried twice: whoever asks how things are wants to know
it now.
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
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.sdk import internals
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.sdk.explaining import reason_of as explained_by

PATIENCE_SECONDS: Final = 30.0
"""For all that is asked of a namespace; one that is well answers within a second."""

PROBE_SECONDS: Final = 10.0
_PROBED: Final = "x-servicebus-transfer"
"""An entity that need not exist: being told so is an answer, too."""

# What it has to say about an error comes with the error; a command says it once.
logging.getLogger("azure").addHandler(logging.NullHandler())

_AWAY: Final = (
    FailureKind.TIMEOUT,
    FailureKind.CONNECTION,
    FailureKind.COMMUNICATION,
)
_KEY: Final = (FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkSide:
    """A namespace, with both clients of the SDK."""

    # What it is called in texts: "The secondary".
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
    """The SDK's errors, as one line and an exit code; `entity` is what is asked for."""
    try:
        yield
    except (AzureError, OSError) as error:
        raise _failure(error, f"{side.role} {side.host}", entity) from None


def _failure(error: Exception, side: str, entity: str) -> Failure:
    kind, why = kind_of(error), reason_of(error)
    if kind in _KEY:
        text = f"{side} refuses the key, or the key lacks a right: {why}"
        return Failure(text, exit_codes.UNAUTHORIZED)
    if kind in _AWAY:
        return Failure(f"{side} does not answer: {why}", exit_codes.UNREACHABLE)
    if kind is FailureKind.NOT_FOUND and entity:
        # The SDK's text does not tell which.
        return Failure(f"{side} has no entity '{entity}'.", exit_codes.NOT_FOUND)
    return Failure(f"{side}: {why}", exit_codes.FAILED)


def reason_of(error: Exception) -> str:
    """One line, without what only the server's log understands."""
    text = " ".join(explained_by(error).split()).partition(" TrackingId:")[0]
    return text or type(error).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachability:
    """Whether a namespace answers."""

    is_up: bool
    # Why it does not, or what is wrong all the same.
    detail: str = ""


async def reach(side: SdkSide) -> Reachability:
    """Whether it answers over AMQP; no right to anything is needed for that. Whether an
    entity takes messages is another question, and pings are for that."""
    sender = side.client.get_queue_sender(_PROBED)
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await internals.open_link(sender, PROBE_SECONDS)
    except TimeoutError:
        return Reachability(is_up=False, detail=f"silent for {PROBE_SECONDS:g} seconds")
    except (AzureError, OSError) as error:
        kind = kind_of(error)
        if kind in _AWAY:
            return Reachability(is_up=False, detail=reason_of(error))
        return Reachability(
            is_up=True, detail="refuses the key" if kind in _KEY else ""
        )
    finally:
        await internals.abort(sender)
    return Reachability(is_up=True)
