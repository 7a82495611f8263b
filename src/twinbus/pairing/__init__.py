"""Paired namespaces: sends go on while the primary namespace is away.

`pair_namespace` is all that an application calls. It needs azure-servicebus, which
comes with `twinbus[pairing]`. The server and the simulator use the same policy without
the SDK.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, overload

from twinbus.pairing.errors import CannotCancel, PairFaulted, PairingError
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.failures import FailureKind, Verdict
from twinbus.pairing.options import (
    PairedNamespaceOptions,
    SendAvailabilityPairedNamespaceOptions,
)
from twinbus.pairing.status import EntityStatus, PairStatus

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient
    from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

    from twinbus.pairing import aio, client

__all__ = [
    "pair_namespace",
    "SendAvailabilityPairedNamespaceOptions",
    "PairedNamespaceOptions",
    "PairStatus",
    "EntityStatus",
    "PairEvent",
    "EventKind",
    "FailureKind",
    "Verdict",
    "PairingError",
    "PairFaulted",
    "CannotCancel",
]


@overload
def pair_namespace(
    primary: "ServiceBusClient", options: SendAvailabilityPairedNamespaceOptions
) -> "client.PairedNamespaceClient": ...


@overload
def pair_namespace(
    primary: "AsyncServiceBusClient", options: SendAvailabilityPairedNamespaceOptions
) -> "Coroutine[Any, Any, aio.PairedNamespaceClient]": ...


def pair_namespace(
    primary: Any, options: SendAvailabilityPairedNamespaceOptions
) -> Any:
    """Pair the primary with the secondary of the options.

    With asynchronous clients it is a coroutine that returns
    `aio.PairedNamespaceClient`. With synchronous clients it blocks and returns
    `client.PairedNamespaceClient`. When it returns, the pair is ready. It raises if
    credentials are bad or backlog queues cannot be made.
    """
    # Imported here, because the rest of this package works without the SDK.
    from twinbus.pairing import aio, client
    from twinbus.pairing.sdk.twins import is_asynchronous

    face = aio if is_asynchronous(primary) else client
    return face.pair_namespace(primary, options)
