"""The engine between any two namespaces, from clients of the SDK."""

from typing import Any, Final

from twinbus.clock import Clock
from twinbus.pairing.sdk.namespace import SdkNamespace
from twinbus.pairing.sdk.twins import twin_of
from twinbus.pairing.sdk_syphon.messages import SdkMessage
from twinbus.pairing.sdk_syphon.outlet import SdkOutlet
from twinbus.pairing.sdk_syphon.reach import Reach
from twinbus.pairing.sdk_syphon.secondary import SdkSecondary
from twinbus.pairing.syphon.ports import Engine

NAME: Final = "azure-servicebus"


def sdk_engine(
    primary: Any,
    secondary: Any,
    administration: Any,
    clock: Clock,
    secondary_name: str | None = None,
) -> Engine[SdkMessage]:
    """It works on twins of the clients, and closes none of those that are given."""
    return Engine(
        NAME,
        SdkSecondary(SdkNamespace(twin_of(secondary)), administration, secondary_name),
        SdkOutlet(SdkNamespace(twin_of(primary)), Reach(primary), clock),
    )
