"""What a connection needs from its process."""

from collections.abc import Callable
from typing import Protocol

from twinbus.broker.transaction import TransactionLimits
from twinbus.clock import Clock
from twinbus.doors.connections import ServedConnection
from twinbus.doors.memory_share import MemoryShare
from twinbus.doors.visitor import Visits
from twinbus.entities.namespaces import Namespaces
from twinbus.links.extensions import Extensions
from twinbus.links.output import Outputs
from twinbus.owner.turns import Turns
from twinbus.peers.peers import Peers


class Host(Protocol):
    """The process, as far as AMQP connections know it."""

    namespaces: Namespaces
    clock: Clock
    outputs: Outputs
    turns: Turns
    container_id: str
    # How long a client may take to open its connection.
    handshake_ms: int
    transaction_limits: TransactionLimits
    extensions: Extensions
    # Returns this number of random bytes.
    entropy: Callable[[int], bytes]
    # Counts the wrong keys of peers.
    visits: Visits
    # Memory held for peers that have shown no key, and for all others.
    strangers_held: MemoryShare
    clients_held: MemoryShare

    # Other brokers, and the name of this one among them; empty if there are none.
    peers: Peers

    @property
    def broker_name(self) -> str: ...

    def joined(self, connection: ServedConnection) -> None: ...

    def recognized(self, connection: ServedConnection) -> None:
        """It has shown a key."""
        ...

    def left(self, connection: ServedConnection) -> None: ...
