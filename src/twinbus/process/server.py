"""The server: namespaces on their stores, from start to stop.

Start: open the data, create the entities of the configuration, listen. It is ready when
it can accept and deliver messages. Stop: accept no more connections, commit what was
accepted and answer, close the connections, release the store.
"""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from twinbus.auth.policy import Policy
from twinbus.broker.descriptions.access_rule import (
    RIGHTS,
    ROOT_KEY_NAME,
    AccessRule,
)
from twinbus.clock import Clock, SystemClock
from twinbus.cluster.broker import Broker
from twinbus.cluster.fitting import why_not_together
from twinbus.cluster.running_brokers import running_brokers
from twinbus.config.config import (
    Config,
    ConfigError,
    local_connection_string,
)
from twinbus.config.entities import DeclaredEntities
from twinbus.doors.amqp.faulty_connection import FaultyAmqpConnection
from twinbus.doors.amqp.peer_door import PeerDoor, cluster_policy
from twinbus.doors.connections import Connections, ServedConnection
from twinbus.doors.http.health import Health
from twinbus.doors.http.held_bytes import HeldBytes
from twinbus.doors.http.http_connection import HttpConnection
from twinbus.doors.visitor import Visits
from twinbus.entities.declared_entities import make_declared
from twinbus.entities.namespace import Namespace
from twinbus.entities.namespace_making import NamespaceMaking
from twinbus.entities.namespaces import Namespaces
from twinbus.errors import ConnectionForced, ServiceBusError
from twinbus.faults.fault import InjectedFault
from twinbus.faults.fault_table import FaultTable
from twinbus.faults.faults import Faults
from twinbus.faults.faulty_store import StoreGone, faulty_store
from twinbus.links.output import Outputs
from twinbus.owner.commit_meter import CommitMeter
from twinbus.owner.owners import Owners
from twinbus.owner.sharing import Sharing
from twinbus.owner.store_owner import StoreOwner
from twinbus.owner.turns import Turns
from twinbus.pairing.metrics import PairMetrics
from twinbus.peers.peers import Peers
from twinbus.peers.reach import ClusterReach
from twinbus.peers.relay import store_moved
from twinbus.process import server_settings
from twinbus.process.arrival import Arrival, PeerDoors, websocket_door
from twinbus.process.certificates import ca_file
from twinbus.process.cluster_entities import ClusterEntities
from twinbus.process.cluster_member import (
    ClusterMetrics,
    catalog_trouble,
    checked_stores,
    cluster_member,
)
from twinbus.process.cluster_outbox import ClusterOutbox
from twinbus.process.data_folder import DataFolder
from twinbus.process.figures import ServerFigures
from twinbus.process.http_doors import HttpDoors
from twinbus.process.listener import Listener
from twinbus.process.namespace_ports import NamespacePorts
from twinbus.process.pair_syphon import PairSyphon
from twinbus.process.peer_address import peer_address, peer_sockets
from twinbus.process.peer_tls import PeerTls, peer_tls
from twinbus.process.seat import HTTP_PORT, PORT, TLS_PORT, Seat
from twinbus.process.server_condition import ServerCondition
from twinbus.process.server_diagnosis import ServerDiagnosis
from twinbus.store.base import Store, StoreError
from twinbus.store.catalog import Catalog
from twinbus.throttling.throttle import Throttle

_log = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.1
"""How precisely locks, time to live and schedules are kept."""

_CONNECTION_TICK_MS: Final = 1_000
_FINISH_MS: Final = 2_000
"""How long requests that were accepted may still take."""

_STOP_SECONDS: Final = 1.0
"""How long clients may take to close after they were asked to."""


class Server:
    """A running bus."""

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        stores: Sequence[Store] | None = None,
        catalog: Catalog | None = None,
        tls: ssl.SSLContext | None = None,
        sharing: Sharing = Sharing.ALONE,
        seat: Seat | None = None,
    ) -> None:
        """`seat`: its place among the brokers that share the stores."""
        self._config = config
        self._seat = seat or Seat(name="")
        self.clock: Clock = clock or SystemClock()
        folder = DataFolder(config)
        self.root_key = folder.root_key()
        self.container_id = f"twinbus-{os.urandom(4).hex()}"
        self.outputs = Outputs()
        self.turns = Turns(self.clock)
        self.peers = Peers(self.clock, self.outputs)
        self.handshake_ms = config.handshake_seconds * 1000
        self.transaction_limits = server_settings.transaction_limits(config)
        self.extensions = server_settings.extensions(config)
        self.entropy: Callable[[int], bytes] = os.urandom
        # None: no TLS.
        self.tls = tls
        # What fails on purpose; None if that is not allowed.
        self.faults = self._allowed_faults()
        opened = folder.stores(sharing) if stores is None else stores
        self.owners = Owners([self._owner(store) for store in opened], sharing)
        self._catalog = catalog or folder.catalog()
        self.namespaces = self._made_namespaces()
        # The default one.
        self.namespace = self.namespaces.default
        self.throttle = self._throttle()
        # The other brokers are known.
        self._is_joined = False
        # None: no other broker shares the stores.
        self.broker = self._member(opened)
        # The syphon that this server runs, if it is configured.
        self.pair = _pair_of(config, self.clock)
        self._connections = Connections(
            server_settings.connection_places(config.max_connections)
        )
        self.figures = self._measured()
        self.visits = Visits(self.clock, config.max_failed_attempts)
        self.held = HeldBytes()
        self.strangers_held = server_settings.share_of_strangers(self.clock)
        self.clients_held = server_settings.share_of_clients(config, self.clock)
        self._ports = self._ports_of_namespaces()
        self.making = NamespaceMaking(self.namespaces, config.namespaces, self._ports)
        self.diagnosis = self._diagnosis()
        self.condition = ServerCondition(
            self.diagnosis, list(self.owners), self.clock, config.watchdog_seconds
        )
        trouble = partial(catalog_trouble, self.broker)
        self.http = HttpDoors(self, Health(checked_stores(self.owners), trouble))
        self.gateway = self.http.gateway
        self.namespaces.on_entered = self._entered
        self.namespaces.on_removed = self._removed
        self.websockets = websocket_door(self, config.websocket_origins)
        self._listeners: list[Listener] = []
        self._ticking: asyncio.Task[None] | None = None
        self._connections_ticked_at = 0
        # Set when the store has failed for good; then the server must stop.
        self.fatal: asyncio.Future[StoreError] | None = None
        self.port = config.port
        self.http_port = config.http_port
        self.tls_port = config.tls_port

    def _allowed_faults(self) -> Faults | None:
        if not self._config.allow_faults:
            return None
        table = FaultTable(Random(os.urandom(16)))
        table.on_set = self._on_fault
        return Faults(table, self.clock, self._config.namespace)

    def _owner(self, store: Store) -> StoreOwner:
        owner = self._owner_of(store if self.faults is None else self._faulty(store))
        if self.faults is not None:
            # It comes back when a fault is cleared, so the process must not end.
            owner.serve_beside_others()
        return owner

    def _faulty(self, store: Store) -> Store:
        assert self.faults is not None
        return faulty_store(store, self.faults)

    def _owner_of(self, store: Store) -> StoreOwner:
        return StoreOwner(
            store,
            self.clock,
            os.urandom,
            on_fatal=self._on_store_failed,
            after_turn=self.outputs.flush,
            on_pressure=self._on_pressure,
            send_id_window_ms=self.extensions.send_id_window_ms,
        )

    def _made_namespaces(self) -> Namespaces:
        config = self._config
        return Namespaces(
            config.namespace,
            self._catalog,
            self.owners,
            self.clock,
            os.urandom,
            self.turns,
            rules=self._rules(),
            limits=server_settings.namespace_limits(config, self.extensions),
            rules_of_others=server_settings.rules_of_namespaces(config),
            transfer=server_settings.transfer_settings(config),
        )

    def _member(self, stores: Sequence[Store]) -> Broker | None:
        if self.owners.sharing is not Sharing.SHARED:
            return None
        return cluster_member(
            self._seat,
            self._catalog,
            list(zip(self.owners, stores, strict=True)),
            self.namespace,
            self.clock,
            self._on_fatal,
        )

    def _throttle(self) -> Throttle:
        owners = list(self.owners)
        throttle = Throttle(
            server_settings.thresholds(self._config),
            owners,
            self._config.namespace,
            self.clock,
        )
        for owner in owners:
            owner.health.meter = CommitMeter(throttle.spent)
        self.namespace.check_not_busy = throttle.check
        return throttle

    # --- other namespaces -----------------------------------------------------

    def _ports_of_namespaces(self) -> NamespacePorts:
        is_shared = self.owners.sharing is Sharing.SHARED
        return NamespacePorts(
            self._config.host, self.namespaces, self._admit, is_shared=is_shared
        )

    def _entered(self, namespace: Namespace) -> None:
        """A namespace besides the default one was loaded or made."""
        namespace.check_not_busy = self.throttle.check
        if self._is_joined:
            self._introduce(namespace)
        self._ports.entered(namespace)

    def _removed(self, namespace: Namespace) -> None:
        self._ports.removed(namespace)
        self.http.removed(namespace)
        self.peers.leave(namespace.name)

    def _introduce(self, namespace: Namespace) -> None:
        """The namespace may have fragments at other brokers."""
        assert self.broker is not None
        is_default = namespace is self.namespace
        peers = self.peers if is_default else self.peers.within(namespace.name)
        others = ClusterEntities(peers, self.broker.directory)
        namespace.stores.others = namespace.rules.others = others

    async def _make_declared(self) -> None:
        """What the configuration declares. Raises ConfigError."""
        config, now = self._config, self.clock.now()
        own = DeclaredEntities(queues=config.queues, topics=config.topics)
        await make_declared(self.namespace, own, config.file, now)
        for name, declared in config.namespaces.items():
            try:
                namespace = await self.making.declare(name, declared.ports)
            except ServiceBusError as error:
                raise ConfigError(f"[namespaces.{name}]: {error.text}") from None
            await make_declared(namespace, declared.entities, config.file, now)

    def _diagnosis(self) -> ServerDiagnosis:
        return ServerDiagnosis(
            self._config,
            lambda: [one.policy for one in self.namespaces],
            self.clock,
            list(self.owners),
            lambda: [each.described() for each in self._connections],
            self._seat.name,
        )

    def _measured(self) -> ServerFigures:
        return ServerFigures(
            self.namespaces,
            self.owners,
            self.clock,
            lambda: len(self._connections),
            is_strict=self._config.strict,
        )

    def _rules(self) -> tuple[AccessRule, ...]:
        key = self.root_key.text
        root = AccessRule(key_name=ROOT_KEY_NAME, primary_key=key, rights=RIGHTS)
        return (root, *self._config.rules)

    @property
    def broker_name(self) -> str:
        """Its name among several brokers; empty if it is alone."""
        return self._seat.name

    @property
    def connection_string(self) -> str:
        """For SDKs on this machine, over plain TCP."""
        return local_connection_string(self._config.host, self.port, self.root_key.text)

    # --- start ----------------------------------------------------------------

    async def start(self) -> None:
        """Get ready to send and receive. Raises StoreError, OSError, ConfigError."""
        loop = asyncio.get_running_loop()
        self.fatal = loop.create_future()
        self.diagnosis.loop = loop
        try:
            await self._open_data()
            if self.root_key.catalog:
                # One that was made now is kept as soon as there is a catalog.
                folder = DataFolder(self._config)
                folder.kept_catalog().root_key(self.root_key.text)
            self._listen()
            if self.broker is not None:
                await self._join(self.broker)
        except BaseException:
            self._close_listeners()
            await self._close_data()
            raise
        self._ticking = asyncio.create_task(self._tick_for_ever(), name="ticks")
        if self.pair is not None:
            await self._start_pair(self.pair)

    async def prepare(self) -> None:
        """Make stores, catalog and declared entities, and leave them to brokers that
        will share them. Raises as `start`."""
        self.fatal = asyncio.get_running_loop().create_future()
        try:
            await self._open_data()
        finally:
            await self._close_data()

    async def _open_data(self) -> None:
        remembered = await self.namespaces.remembered_stores()
        description = f"twinbus serve, namespace {self._config.namespace}"
        if self._seat.name:
            description += f", broker {self._seat.name}"
        await self.owners.open(description, remembered)
        if self.broker is not None:
            await self._meet(self.broker)
        await self.namespaces.open()
        self.owners.start()
        self.namespaces.start()
        # Brokers that share stores find them made.
        if self.broker is None:
            await self._make_declared()

    async def _meet(self, broker: Broker) -> None:
        """Others may be there: listen to them, and see whether this one fits. Nothing
        was written yet. Raises StoreError, OSError, ConfigError."""
        key = await self._catalog.cluster_key()
        tls = peer_tls(key, self.clock.now())
        policy = cluster_policy(key)
        self.http.join(key, policy)
        broker.address = self._listen_to_peers(key, policy, tls)
        me, running = broker.announcement(), await running_brokers(self._catalog)
        mismatch = why_not_together(me, running, broker.places())
        if mismatch:
            raise ConfigError(mismatch)
        log_of = self.namespace.transfer_log.log_of
        reach = ClusterReach(key, tls.to)
        self.peers.join(broker.directory.address_of, key, reach, log_of)

    async def _join(self, broker: Broker) -> None:
        """Raises StoreError."""
        self._is_joined = True
        for namespace in self.namespaces:
            self._introduce(namespace)
        self.namespace.follower.others = self.namespace.stores.others
        outbox = ClusterOutbox(self.peers, broker.directory)
        self.namespace.transfer_log.elsewhere = outbox
        self.http.default.gateway.metrics.registry.register(
            ClusterMetrics(broker, self.owners)
        )
        await self.namespace.follower.follow()
        await broker.join()

    def _listen_to_peers(self, key: bytes, policy: Policy, tls: PeerTls) -> str:
        """The address for other brokers. Raises OSError."""
        sockets = peer_sockets(self._config, self._seat)
        address = peer_address(self._config, sockets[0].getsockname()[1])
        gateway = self.http.peer_gateway(policy)
        doors = PeerDoors(
            amqp=lambda: PeerDoor(self, policy),
            http=lambda: HttpConnection(self, gateway),
            tls=tls.accepting_at(address),
            key=key,
            address=address,
        )
        admit = partial(self._admit, for_peers=doors)
        self._listeners.append(Listener(sockets, admit))
        return address

    async def _start_pair(self, pair: PairSyphon) -> None:
        """Raises ConfigError."""
        authority = ca_file(self._config)
        is_own = self.tls is not None and authority.exists()
        try:
            await pair.start(
                self.namespace,
                self.connection_string,
                str(authority) if is_own else None,
                PairMetrics(self.http.default.gateway.metrics.registry).of(
                    pair.primary_name
                ),
            )
        except ServiceBusError as error:
            await self.stop()
            raise ConfigError(f"[pair]: {error.text}") from None

    def _listen(self) -> None:
        """Every port serves all protocols; some clients expect a certain port."""
        self.port = self._listen_on(PORT, self._config.port)
        if self._config.http_port not in (0, self.port):
            self.http_port = self._listen_on(HTTP_PORT, self._config.http_port)
        if self.tls is not None and self._config.tls_port not in (0, self.port):
            self.tls_port = self._listen_on(TLS_PORT, self._config.tls_port)
        self._ports.listen()

    def _listen_on(self, setting: str, port: int) -> int:
        inherited = self._seat.sockets.get(setting)
        if inherited:
            listener = Listener(inherited, self._admit, accepts_per_turn=1)
        else:
            listener = Listener.at(self._config.host, port, self._admit)
        self._listeners.append(listener)
        return listener.port

    def _admit(
        self,
        connected: socket.socket,
        for_peers: PeerDoors | None = None,
    ) -> None:
        """The check is here and not in `joined`, because for a moment a connection and
        its Arrival are both counted."""
        if not self._connections.make_room(self.clock.monotonic()):
            connected.close()
            return
        # It joins by itself, and is kept until its protocol is known.
        Arrival(connected, self, for_peers)

    # --- connections ----------------------------------------------------------

    def joined(self, connection: ServedConnection) -> None:
        self._connections.add(connection, self.clock.monotonic())
        if self.owners.is_under_pressure():
            connection.pause_reading()

    def recognized(self, connection: ServedConnection) -> None:
        """The client has shown a key."""
        self._connections.recognize(connection)

    def left(self, connection: ServedConnection) -> None:
        self._connections.remove(connection)

    def _on_fault(self, fault: InjectedFault) -> None:
        for connection in self._connections:
            if isinstance(connection, FaultyAmqpConnection):
                connection.on_fault(fault)
        self.outputs.flush()

    def _on_pressure(self, _: bool) -> None:
        is_high = self.owners.is_under_pressure()
        for connection in self._connections:
            if is_high:
                connection.pause_reading()
            else:
                connection.resume_reading()

    # --- time -----------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                self.tick()
            except Exception as bug:
                # Without ticks no lock and no time to live would end: stop instead.
                _log.critical("the bus stops because of a bug", exc_info=True)
                self._on_fatal(StoreError(f"internal error: {bug!r}"))
                return

    def tick(self) -> None:
        """Do what is due."""
        # First: an owner that finds its lease over by now is not sick.
        self.owners.tick()
        self.condition.tick()
        self.throttle.tick()
        monotonic = self.clock.monotonic()
        if monotonic - self._connections_ticked_at >= _CONNECTION_TICK_MS:
            self._connections_ticked_at = monotonic
            now = self.clock.now()
            self.namespaces.tick(now)
            self.http.tick()
            for connection in self._connections:
                connection.tick(now, monotonic)
            if self.peers.is_cluster:
                self.peers.tick(monotonic)
                self._detach_moved()
        self.outputs.flush()

    def _detach_moved(self) -> None:
        """Lead clients to where stores are served now."""
        moved, returned, left = self.peers.moves.look(self.owners)
        if not moved and not returned and not left:
            return
        for entity in list(self.namespaces.entities()):
            homes = entity.homes()
            if not moved.isdisjoint(homes):
                entity.detach_all(store_moved(entity.path))
            elif entity.is_partitioned and not returned.isdisjoint(homes):
                entity.detach_receivers(store_moved(entity.path))
            elif not entity.is_partitioned and not left.isdisjoint(homes):
                # What they send may be kept until the store is served again.
                entity.detach_senders(store_moved(entity.path))

    # --- stop -----------------------------------------------------------------

    def _on_store_failed(self, error: StoreError) -> None:
        """Its fragments are out of service; without any store the process ends, unless
        other brokers may have them."""
        is_expected = isinstance(error, StoreGone) or self.broker is not None
        if not self.owners.serving() and not is_expected:
            self._on_fatal(error)

    def _on_fatal(self, error: StoreError) -> None:
        if self.fatal is not None and not self.fatal.done():
            self.fatal.set_result(error)

    async def stop(self) -> None:
        """Finish what was accepted, then release everything."""
        if self.faults is not None:
            self.faults.table.clear()
        if self.pair is not None:
            await self.pair.close()
        self._close_listeners()
        if self._ticking is not None:
            self._ticking.cancel()
        self.condition.stop()
        self.http.stop_waiting()
        await self._finish()
        await self._close_connections()
        await self._close_data()

    def _close_listeners(self) -> None:
        self._ports.close()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    async def _finish(self) -> None:
        """Answer all accepted requests; nothing more is read, so that this ends."""
        for connection in self._connections:
            connection.pause_reading()
        ends_at = self.clock.monotonic() + _FINISH_MS
        while self.fatal is not None and not self.fatal.done():
            requests = [task for item in self._connections for task in item.requests]
            left_ms = ends_at - self.clock.monotonic()
            if requests and left_ms > 0:
                await asyncio.wait(requests, timeout=left_ms / 1000)
            elif requests:
                _log.warning(
                    "stopping without the answers to %d requests", len(requests)
                )
                await _cancel(requests)
            elif self.owners.is_idle():
                return
            else:
                # A failed commit is reported in the answer of each request.
                with contextlib.suppress(ServiceBusError):
                    await self.owners.durable()

    async def _close_connections(self) -> None:
        error = ConnectionForced("The bus is being stopped. Connect again later.")
        monotonic = self.clock.monotonic()
        for connection in self._connections:
            connection.close(error, monotonic)
            connection.resume_reading()
        self.outputs.flush()
        if self._connections:
            self._connections.deserted.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._connections.deserted.wait(), _STOP_SECONDS)
        for connection in self._connections:
            connection.abort()
        self.peers.close()

    async def _close_data(self) -> None:
        if self.broker is not None:
            await self.broker.stop()
        await self.owners.stop()
        if self.broker is not None:
            await self.broker.leave()
        await self.namespaces.close()


async def _cancel(requests: list[asyncio.Task[None]]) -> None:
    for task in requests:
        task.cancel()
    await asyncio.wait(requests)


def _pair_of(config: Config, clock: Clock) -> PairSyphon | None:
    """Raises ConfigError."""
    if config.pair is None:
        return None
    try:
        return PairSyphon(config.pair, clock, config.max_entity_megabytes)
    except ValueError as error:
        text = str(error).replace("the option primary_name", "primary_name")
        raise ConfigError(f"[pair]: {text}") from None
