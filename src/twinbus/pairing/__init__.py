"""Paired namespaces: sends go on while the primary namespace is away.

`pair_namespace` is all that an application calls; it needs azure-servicebus, which
comes with `twinbus[pairing]`. What else is here does without it: the server and the
simulator use the same policy.
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

    Given asynchronous clients it is a coroutine and gives `aio.PairedNamespaceClient`;
    given synchronous ones it blocks and gives `client.PairedNamespaceClient`. When it
    returns, the pair is ready; bad credentials and backlog queues that cannot be made
    are raised here.
    """
    # Here, because the rest of this package does without the SDK.
    from twinbus.pairing import aio, client
    from twinbus.pairing.sdk.twins import is_asynchronous

    face = aio if is_asynchronous(primary) else client
    return face.pair_namespace(primary, options)
