"""Whether two namespaces are both twinbus, and the engine between them."""

from typing import Final

from twinbus.amqp.types import AmqpArray
from twinbus.client.address import NamespaceAddress
from twinbus.client.namespace_connection import NamespaceConnection, connected
from twinbus.clock import Clock
from twinbus.pairing.own.messages import OwnMessage
from twinbus.pairing.own.outlet import OwnOutlet
from twinbus.pairing.own.secondary import OwnSecondary
from twinbus.pairing.syphon.ports import Engine, Listing
from twinbus.pairing.syphon.settings import USER_AGENT

_EXTENSIONS: Final = "twinbus:extensions"
_LEDGER: Final = "restore-ledger"
_CONNECT_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 2.0

NAME: Final = "twinbus"


async def is_twinbus(address: NamespaceAddress) -> bool:
    """Whether the namespace offers the extensions that this engine needs. Raises
    OSError, TimeoutError, ClientError if it does not answer."""
    connection = await connected(address, _CONNECT_SECONDS)
    offered = connection.peer_properties.get(_EXTENSIONS)
    await connection.close(timeout_seconds=_CLOSE_SECONDS)
    return isinstance(offered, AmqpArray) and _LEDGER in offered.items


def own_engine(
    primary: NamespaceAddress,
    secondary: NamespaceAddress,
    clock: Clock,
    secondary_name: str | None = None,
    listing: Listing | None = None,
) -> Engine[OwnMessage]:
    """An engine that connects when first used. `listing` finds the backlog queues; by
    default the administration of the secondary does."""
    return Engine(
        NAME,
        OwnSecondary(
            NamespaceConnection(secondary, clock, USER_AGENT),
            clock,
            secondary_name,
            listing,
        ),
        OwnOutlet(NamespaceConnection(primary, clock, USER_AGENT), clock),
    )
