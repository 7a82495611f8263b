"""One broker process of a simulated cluster.

Real are the owners of its stores, the namespace, the cluster's loop, the doors for
clients and for brokers, and the ways to other brokers. It differs from a server in what
it stands on: processes, clocks, network, stores and catalog are simulated.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from simulator.broker_catalog import BrokerCatalog, SharedCatalog
from simulator.broker_doors import Factory, FirstByte, HttpDoor
from simulator.broker_network import Network, reach_over_network
from simulator.broker_store import BrokerStore, CommonStore
from simulator.process_loop import SimulatedProcess
from twinbus.broker.descriptions.access_rule import RIGHTS, AccessRule
from twinbus.broker.transaction import TransactionLimits
from twinbus.clock import Clock
from twinbus.cluster.broker import Broker
from twinbus.cluster.shared_store import SharedStore
from twinbus.doors.amqp.amqp_connection import AmqpConnection
from twinbus.doors.amqp.peer_door import PeerDoor, cluster_policy
from twinbus.doors.connections import ServedConnection
from twinbus.doors.http.http_connection import HttpConnection
from twinbus.doors.memory_share import MemoryShare
from twinbus.doors.visitor import Visits
from twinbus.entities.namespace_limits import NamespaceLimits
from twinbus.entities.namespaces import Namespaces
from twinbus.entities.partitioning import Partitioning
from twinbus.errors import ConnectionForced, ServiceBusError
from twinbus.limits import (
    CLIENT_SPARED_BYTES,
    CLIENTS_BYTES,
    ENTITIES_PER_NAMESPACE,
    FAILED_PROOFS,
    HANDSHAKE_SECONDS,
    MESSAGE_BYTES,
    STRANGER_SPARED_BYTES,
    STRANGERS_BYTES,
)
from twinbus.links.extensions import Extensions
from twinbus.links.output import Outputs
from twinbus.outbox.transfer_log import TransferSettings
from twinbus.owner.owners import Owners
from twinbus.owner.sharing import Sharing
from twinbus.owner.store_owner import StoreOwner
from twinbus.owner.turns import Turns
from twinbus.peers.peers import Peers
from twinbus.peers.relay import store_moved
from twinbus.process.cluster_entities import ClusterEntities
from twinbus.process.cluster_outbox import ClusterOutbox
from twinbus.store.base import StoreError
from twinbus.store.formats import POSTGRES_STORE
from twinbus.store.process_identity import Processes

KEY_NAME: Final = "clients"
KEY: Final = "secret"

FRAGMENTS: Final = 4
"""Of a partitioned queue."""

_TICK_SECONDS: Final = 0.2
_CONNECTION_TICK_MS: Final = 1_000
_FINISH_SECONDS: Final = 2.0

LocksMade = Callable[[CommonStore, int, bytes], None]
"""Told of the random bits of locks at the moment at which an owner makes them, and of
the epoch in which it believes to be."""


class SimulatedBroker:
    """A process with all its stores. It is also the host of its connections."""

    def __init__(
        self,
        process: SimulatedProcess,
        network: Network,
        catalog: SharedCatalog,
        stores: Sequence[CommonStore],
        random: Random,
        *,
        processes: Processes,
        newest_format: int,
        sharing: Sharing,
        transfer: TransferSettings,
        on_locks_made: LocksMade,
        on_detached: Callable[[], None],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self.process = process
        self._network = network
        self._random = random
        self._on_locks_made = on_locks_made
        self._on_detached = on_detached
        self._on_bug = on_bug
        self.clock: Clock = process.clock
        self.container_id = f"twinbus-{process.place}"
        self.outputs = Outputs()
        self.turns = Turns(self.clock)
        self.peers = Peers(self.clock, self.outputs)
        self.handshake_ms = HANDSHAKE_SECONDS * 1000
        self.transaction_limits = TransactionLimits()
        self.extensions = Extensions()
        self.entropy: Callable[[int], bytes] = random.randbytes
        self.visits = Visits(self.clock, FAILED_PROOFS)
        self.strangers_held = MemoryShare(
            "that have shown no key",
            *(STRANGERS_BYTES, STRANGER_SPARED_BYTES, self.clock),
        )
        self.clients_held = MemoryShare(
            "of clients", CLIENTS_BYTES, CLIENT_SPARED_BYTES, self.clock
        )
        self._catalog = BrokerCatalog(catalog, process, Random(random.random()))
        self._processes = processes
        self._newest_format = newest_format
        self.stores = [
            BrokerStore(one, process, processes, newest_format) for one in stores
        ]
        self.owners = Owners([self._owner(one) for one in self.stores], sharing)
        self.namespaces = self._made_namespaces(transfer)
        self.namespace = self.namespaces.default
        self.gateway = HttpDoor(self.namespace, self.clock, self._random.randbytes)
        self.held = self.gateway.held
        self.broker: Broker | None = None
        # Those of clients and of other brokers, in the order in which they came.
        self._connections: dict[ServedConnection, None] = {}
        self._connections_ticked_at = 0
        self._ticking: asyncio.Task[None] | None = None
        self.client_port = 0
        self._peer_port = 0

    def _owner(self, store: BrokerStore) -> StoreOwner:
        owner = StoreOwner(
            store.as_store(),
            self.clock,
            self._random.randbytes,
            on_fatal=self._on_store_failed,
            after_turn=self.outputs.flush,
            on_pressure=lambda is_high: None,
        )
        owner._deliveries._entropy = partial(self._draw_for_locks, owner, store.shared)
        return owner

    def _draw_for_locks(
        self, owner: StoreOwner, store: CommonStore, count: int
    ) -> bytes:
        drawn = self._random.randbytes(count)
        self._on_locks_made(store, owner.epoch, drawn)
        return drawn

    def _on_store_failed(self, error: StoreError) -> None:
        """Other brokers may have it; a bug is not among the troubles."""
        if "internal error" in str(error):
            self._on_bug(error)

    def _made_namespaces(self, transfer: TransferSettings) -> Namespaces:
        rule = AccessRule(key_name=KEY_NAME, primary_key=KEY, rights=RIGHTS)
        return Namespaces(
            "simulated",
            self._catalog,
            self.owners,
            self.clock,
            self._random.randbytes,
            self.turns,
            rules=(rule,),
            limits=NamespaceLimits(
                max_entities=ENTITIES_PER_NAMESPACE,
                max_entity_message_bytes=MESSAGE_BYTES,
                max_message_bytes=MESSAGE_BYTES,
                partitioning=Partitioning(fragment_count=FRAGMENTS),
            ),
            transfer=transfer,
        )

    # --- start ----------------------------------------------------------------

    async def open(self) -> None:
        """Open the data, as each server does. Raises StoreError."""
        remembered = await self.namespaces.remembered_stores()
        await self.owners.open(self.process.place, remembered)
        await self.namespaces.open()
        self.owners.start()
        self.namespaces.start()

    async def join(self, expected_count: int) -> None:
        """Become one of the brokers of the cluster. Raises StoreError."""
        key = await self._catalog.cluster_key()
        policy = cluster_policy(key)
        self.broker = Broker(
            self._catalog,
            [self._shared(owner, store) for owner, store in self._owned()],
            self.clock,
            self._random.randbytes(16),
            name=self.process.place,
            namespace=self.namespace.name,
            formats={POSTGRES_STORE: self._newest_format},
            follow=self.namespace.follower.follow,
            on_return=self.namespace.transfer_log.look_again,
            on_fatal=self._on_bug,
            expected_count=expected_count,
            processes=self._processes,
        )
        others_gateway = self.gateway.join(self.peers, key, policy)
        self._peer_port = self._listen(
            lambda: PeerDoor(self, policy), lambda: HttpConnection(self, others_gateway)
        )
        directory, log = self.broker.directory, self.namespace.transfer_log
        self.peers.join(directory.address_of, key, reach_over_network, log.log_of)
        others = ClusterEntities(self.peers, directory)
        self.namespace.stores.others = self.namespace.follower.others = others
        self.namespace.rules.others = others
        log.elsewhere = ClusterOutbox(self.peers, directory)
        self.broker.address = f"{self.process.place}:{self._peer_port}"
        await self.namespace.follower.follow()
        await self.broker.join()
        self.client_port = self._listen(
            lambda: AmqpConnection(self), lambda: HttpConnection(self)
        )
        self._ticking = asyncio.create_task(self._tick_for_ever())

    def _owned(self) -> list[tuple[StoreOwner, BrokerStore]]:
        return list(zip(self.owners, self.stores, strict=True))

    def _shared(self, owner: StoreOwner, store: BrokerStore) -> SharedStore:
        return SharedStore(owner, store.as_store(), store.shared.holder_identity)

    def _listen(self, amqp: Factory, http: Factory) -> int:
        return self._network.listen(self.process, lambda: FirstByte(amqp, http))

    # --- as the host of connections -------------------------------------------

    @property
    def broker_name(self) -> str:
        return self.process.place

    def joined(self, connection: ServedConnection) -> None:
        self._connections[connection] = None

    def recognized(self, connection: ServedConnection) -> None:
        """Nobody is turned away here."""

    def left(self, connection: ServedConnection) -> None:
        self._connections.pop(connection, None)

    # --- time -----------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                self._tick()
            except Exception as bug:
                self._on_bug(bug)

    def _tick(self) -> None:
        self.owners.tick()
        monotonic = self.clock.monotonic()
        if monotonic - self._connections_ticked_at >= _CONNECTION_TICK_MS:
            self._connections_ticked_at = monotonic
            now = self.clock.now()
            self.namespaces.tick(now)
            for connection in list(self._connections):
                connection.tick(now, monotonic)
            self.peers.tick(monotonic)
            self._detach_moved()
        self.outputs.flush()

    def _detach_moved(self) -> None:
        """As a server does."""
        moved, returned, left = self.peers.moves.look(self.owners)
        for entity in list(self.namespace.entities()):
            homes = entity.homes()
            if not moved.isdisjoint(homes):
                entity.detach_all(store_moved(entity.path))
                self._on_detached()
            elif entity.is_partitioned and not returned.isdisjoint(homes):
                entity.detach_receivers(store_moved(entity.path))
                self._on_detached()
            elif not entity.is_partitioned and not left.isdisjoint(homes):
                entity.detach_senders(store_moved(entity.path))

    def serves(self, shared: CommonStore) -> bool:
        """It is up, and has the store in the epoch that counts."""
        return self.process.is_running and shared in self.owned_stores()

    def owned_stores(self) -> list[CommonStore]:
        """Those that it has in the epoch that counts."""
        return [
            store.shared
            for owner, store in self._owned()
            if owner.is_serving and owner.epoch == store.shared.epoch
        ]

    # --- stop -----------------------------------------------------------------

    async def stop(self) -> None:
        """Finish what was accepted, then give everything back, as a server does."""
        self._network.close(self.client_port)
        self._network.close(self._peer_port)
        if self._ticking is not None:
            self._ticking.cancel()
        await self._finish()
        error = ConnectionForced("The bus is being stopped. Connect again later.")
        for connection in list(self._connections):
            connection.close(error, self.clock.monotonic())
        self.outputs.flush()
        self.peers.close()
        await self.close()

    async def _finish(self) -> None:
        for connection in list(self._connections):
            connection.pause_reading()
        requests = [task for one in self._connections for task in one.requests]
        if requests:
            await asyncio.wait(requests, timeout=_FINISH_SECONDS)
        if not self.owners.is_idle():
            with contextlib.suppress(ServiceBusError):
                await self.owners.durable()

    async def close(self) -> None:
        """Give stores and place back."""
        if self.broker is not None:
            await self.broker.stop()
        await self.owners.stop()
        if self.broker is not None:
            await self.broker.leave()
        await self.namespaces.close()
