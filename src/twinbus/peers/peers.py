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
from twinbus.client.connection import ClientConnection, open_over
from twinbus.client.errors import ClientError
from twinbus.clock import Clock
from twinbus.errors import ServerBusy
from twinbus.links.output import Outputs
from twinbus.peers.peer_address import host_and_port
from twinbus.peers.peer_connection import PeerConnection
from twinbus.peers.peer_http import PeerHttp
from twinbus.peers.peer_properties import KEY_NAME, host_for
from twinbus.peers.reach import PeerReach, reach_nobody
from twinbus.peers.store_moves import StoreMoves

AddressOf = Callable[[bytes], str | None]
"""Where another broker serves the store with this UUID; None: nowhere."""

LogOf = Callable[[Home], Home | None]
"""The store that keeps messages for another one while nobody serves that."""

REQUEST_SECONDS: Final = 30.0
"""How long another broker may take to answer a request of a client."""

NO_ANSWER: Final = (OSError, TimeoutError, ClientError)
"""What is raised by a request that is not answered."""

_SILENT: Final = "The broker that has the entity did not answer. Try again."


class Peers:
    """Connections to other brokers, by address."""

    def __init__(self, clock: Clock, outputs: Outputs, namespace: str = "") -> None:
        self._clock = clock
        self._outputs = outputs
        # Which namespace their connections are for; empty: the default one.
        self._namespace = namespace
        self._of_others: dict[str, Peers] = {}
        # Set when this process has joined a cluster.
        self._address_of: AddressOf | None = None
        self._key = ""
        self._log_of: LogOf | None = None
        self.reach: PeerReach = reach_nobody
        self._connections: dict[str, PeerConnection] = {}
        # For requests, which are rare: a client's connection each.
        self._requesters: dict[str, ClientConnection] = {}
        self._connecting: dict[str, asyncio.Lock] = {}
        # For requests with large bodies.
        self.http = PeerHttp(clock, lambda address, make: self.reach(address, make))
        self.moves = StoreMoves(self.address_of)

    def join(
        self, address_of: AddressOf, key: bytes, reach: PeerReach, log_of: LogOf
    ) -> None:
        """This process is a broker of a cluster."""
        self._address_of = address_of
        self._key = key.hex()
        self.reach = reach
        self._log_of = log_of

    def within(self, namespace: str) -> "Peers":
        """The ways to the same brokers for another namespace. They have connections of
        their own, each of which names it once."""
        found = self._of_others.get(namespace)
        if found is None:
            found = Peers(self._clock, self._outputs, namespace)
            found._address_of, found._key = self._address_of, self._key
            found.reach, found._log_of = self.reach, self._log_of
            found.http = self.http
            self._of_others[namespace] = found
        return found

    def leave(self, namespace: str) -> None:
        """The namespace was removed."""
        found = self._of_others.pop(namespace, None)
        if found is not None:
            found._close_connections()

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

    def detour_address_of(self, home: Home) -> str | None:
        """The other broker that keeps messages for this store, if nobody serves it."""
        if self._log_of is None or home.is_serving or self.address_of(home) is not None:
            return None
        log = self._log_of(home)
        return None if log is None else self.address_of(log)

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
            found = PeerConnection(
                *(address, self._key, self._clock, self._outputs),
                *(self.reach, self._namespace),
            )
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
        connection = await self.reached(address)
        try:
            return await connection.request(
                node, message, timeout_seconds=timeout_seconds
            )
        except NO_ANSWER as error:
            raise ServerBusy(_SILENT) from error

    async def reached(self, address: str) -> ClientConnection:
        """A connection for requests to that broker. Raises ServerBusy: then nothing
        was asked."""
        connecting = self._connecting.setdefault(address, asyncio.Lock())
        try:
            async with connecting:
                found = self._requesters.get(address)
                if found is None or not found.is_open:
                    found = await self._connected(address)
                    self._requesters[address] = found
                return found
        except NO_ANSWER as error:
            raise ServerBusy(_SILENT) from error

    async def _connected(self, address: str) -> ClientConnection:
        host, _ = host_and_port(address)
        return await open_over(
            lambda make: self.reach(address, make),
            sasl=plain(KEY_NAME, self._key),
            hostname=host_for(self._namespace, host),
            timeout_seconds=3.0,
        )

    # --- life -----------------------------------------------------------------

    def flush(self) -> None:
        """Write what was answered outside of a turn."""
        self._outputs.flush()

    def tick(self, monotonic: int) -> None:
        for connection in self._connections.values():
            connection.tick(monotonic)
        for of_other in self._of_others.values():
            of_other.tick(monotonic)
        self.http.forget_idle()

    def close(self) -> None:
        self.http.close()
        for of_other in self._of_others.values():
            of_other._close_connections()
        self._close_connections()

    def _close_connections(self) -> None:
        for connection in self._connections.values():
            connection.close()
        for requester in self._requesters.values():
            requester.abort()
