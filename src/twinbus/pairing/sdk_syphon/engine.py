"""The engine between any two namespaces, from clients of the SDK."""

import os
from typing import Any, Final

from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from twinbus.clock import Clock
from twinbus.pairing.sdk.namespace import SdkNamespace
from twinbus.pairing.sdk.twins import twin_of
from twinbus.pairing.sdk_syphon.messages import SdkMessage
from twinbus.pairing.sdk_syphon.outlet import SdkOutlet
from twinbus.pairing.sdk_syphon.reach import Reach
from twinbus.pairing.sdk_syphon.secondary import SdkSecondary
from twinbus.pairing.syphon.ports import Engine
from twinbus.pairing.syphon.settings import USER_AGENT

NAME: Final = "azure-servicebus"


def sdk_engine(
    primary: Any,
    secondary: Any,
    administration: Any,
    clock: Clock,
    secondary_name: str | None = None,
    *,
    closes_administration: bool = False,
) -> Engine[SdkMessage]:
    """An engine over twins of the two clients; the given clients stay open."""
    return Engine(
        NAME,
        SdkSecondary(
            SdkNamespace(twin_of(secondary, USER_AGENT)),
            administration,
            clock,
            secondary_name,
            closes_administration=closes_administration,
        ),
        SdkOutlet(SdkNamespace(twin_of(primary, USER_AGENT)), Reach(primary), clock),
    )


def sdk_engine_of_strings(
    primary: str,
    secondary: str,
    clock: Clock,
    secondary_name: str | None = None,
    authority: str | None = None,
) -> Engine[SdkMessage]:
    """An engine from connection strings. The variable `SSL_CERT_FILE` names a file with
    authorities to trust, `authority` another one for the secondary. Raises
    ValueError."""
    usual = os.environ.get("SSL_CERT_FILE")
    trust = _options(authority or usual)
    return sdk_engine(
        ServiceBusClient.from_connection_string(primary, **_options(usual)),
        ServiceBusClient.from_connection_string(secondary, **trust),
        ServiceBusAdministrationClient.from_connection_string(secondary, **trust),
        clock,
        secondary_name,
        closes_administration=True,
    )


def _options(authority: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {"retry_total": 0}
    if authority:
        options["connection_verify"] = authority
    return options
