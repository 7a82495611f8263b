"""The other brokers of the cluster, as those who serve clients need them.

A store that is not served here may be served by another broker. Then its fragments are
remote: reached through that one. Without a cluster there are no remote fragments.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from twinbus.amqp.messaging import Message
from twinbus.amqp.sasl import plain
from twinbus.broker.home import Home
from twinbus.client.connection import ClientConnection, connect
from twinbus.client.errors import ClientError
from twinbus.clock import Clock
from twinbus.errors import ServerBusy
from twinbus.links.output import Outputs
from twinbus.peers.peer_connection import PeerConnection
from twinbus.peers.peer_properties import KEY_NAME
from twinbus.peers.store_moves import StoreMoves

AddressOf = Callable[[bytes], str | None]
"""Where another broker serves the store with this UUID; None: nowhere."""

REQUEST_SECONDS: Final = 30.0
"""How long another broker may take to answer a request of a client."""


class Peers:
    """Connections to other brokers, by address."""

    def __init__(self, clock: Clock, outputs: Outputs) -> None:
        self._clock = clock
        self._outputs = outputs
        # Set when this process has joined a cluster.
        self._address_of: AddressOf | None = None
        self._key = ""
        self._connections: dict[str, PeerConnection] = {}
        # For requests, which are rare: a client's connection each.
        self._requesters: dict[str, ClientConnection] = {}
        self._connecting = asyncio.Lock()
        self.moves = StoreMoves(self.address_of)

    def join(self, address_of: AddressOf, key: bytes) -> None:
        """This process is a broker of a cluster."""
        self._address_of = address_of
        self._key = key.hex()

    @property
    def is_cluster(self) -> bool:
        """There may be other brokers."""
        return self._address_of is not None

    # --- where things are -----------------------------------------------------

    def address_of(self, home: Home) -> str | None:
        """The broker that serves this store, if it is another one."""
        if self._address_of is None or home.is_serving:
            return None
        return self._address_of(home.store_uuid)

    def sole_owner(self, homes: Sequence[Home]) -> str | None:
        """The broker that serves all these stores, if it is another one."""
        if self._address_of is None:
            return None
        addresses = {self.address_of(home) for home in homes}
        return addresses.pop() if len(addresses) == 1 else None

    def has_remote(self, homes: Sequence[Home]) -> bool:
        """Another broker serves one of these stores."""
        return any(self.address_of(home) is not None for home in homes)

    # --- ways to them ---------------------------------------------------------

    def connection(self, address: str) -> PeerConnection:
        """The connection to that broker, opened when it is used."""
        found = self._connections.get(address)
        if found is None:
            found = PeerConnection(address, self._key, self._clock, self._outputs)
            self._connections[address] = found
        return found

    async def request(
        self,
        address: str,
        node: str,
        message: Message,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> Message:
        """Ask a node of that broker. Raises ServerBusy if it does not answer."""
        try:
            connection = await self._requester(address)
            return await connection.request(
                node, message, timeout_seconds=timeout_seconds
            )
        except (OSError, TimeoutError, ClientError) as error:
            raise ServerBusy(
                "The broker that has the entity did not answer. Try again."
            ) from error

    async def _requester(self, address: str) -> ClientConnection:
        async with self._connecting:
            found = self._requesters.get(address)
            if found is None or not found.is_open:
                host, _, port = address.rpartition(":")
                sasl = plain(KEY_NAME, self._key)
                found = await connect(host, int(port), sasl=sasl, timeout_seconds=3.0)
                self._requesters[address] = found
            return found

    # --- life -----------------------------------------------------------------

    def tick(self, monotonic: int) -> None:
        for connection in self._connections.values():
            connection.tick(monotonic)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        for requester in self._requesters.values():
            requester.abort()
