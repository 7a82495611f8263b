"""The server: one namespace on its stores, from start to stop.

Start: open the data, create the entities of the configuration, listen. It is ready when
it can accept and deliver messages. Stop: accept no more connections, commit what was
accepted and answer, close the connections, release the store.
"""

import asyncio
import contextlib
import logging
import os
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from twinbus.auth.claims import AuthorizationRule, Claim
from twinbus.broker.transaction import TransactionLimits
from twinbus.clock import Clock, SystemClock
from twinbus.cluster.broker import Broker
from twinbus.config.config import (
    ROOT_KEY_NAME,
    Config,
    ConfigError,
    local_connection_string,
)
from twinbus.doors.amqp.amqp_connection import AmqpConnection
from twinbus.doors.amqp.faulty_connection import FaultyAmqpConnection
from twinbus.doors.amqp.peer_door import PeerDoor, cluster_policy
from twinbus.doors.connections import Connections, ServedConnection
from twinbus.doors.http.administration.administration import Administration
from twinbus.doors.http.bulk.bulk import Bulk
from twinbus.doors.http.diagnosis_requests import DiagnosisRequests
from twinbus.doors.http.fault_requests import FaultRequests
from twinbus.doors.http.faulty_connection import FaultyCaller
from twinbus.doors.http.gateway import Gateway
from twinbus.doors.http.health import Health
from twinbus.doors.http.held_bytes import HeldBytes
from twinbus.doors.http.metrics import Metrics
from twinbus.doors.memory_share import MemoryShare
from twinbus.durations import duration_ms
from twinbus.entities.declared_entities import make_declared
from twinbus.entities.entity_access import authorization_rule
from twinbus.entities.namespace import Namespace
from twinbus.entities.partitioning import Partitioning
from twinbus.entities.topic_quotas import TopicQuotas
from twinbus.errors import ConnectionForced, ServiceBusError
from twinbus.faults.fault import InjectedFault
from twinbus.faults.fault_table import FaultTable
from twinbus.faults.faults import Faults
from twinbus.faults.faulty_store import StoreGone, faulty_store
from twinbus.limits import (
    CLIENT_SPARED_BYTES,
    CLIENTS_BYTES,
    FILES_RESERVED,
    STRANGER_SPARED_BYTES,
    STRANGERS_BYTES,
)
from twinbus.links.extensions import Extensions
from twinbus.links.output import Outputs
from twinbus.operations.bulk.bulk_entities import BulkEntities
from twinbus.outbox.transfer_log import TransferSettings
from twinbus.owner.commit_meter import CommitMeter
from twinbus.owner.owners import Owners
from twinbus.owner.sharing import Sharing
from twinbus.owner.store_owner import StoreOwner
from twinbus.owner.turns import Turns
from twinbus.pairing.metrics import PairMetrics
from twinbus.peers.peers import Peers
from twinbus.peers.relay import store_moved
from twinbus.process.arrival import Arrival
from twinbus.process.certificates import ca_file
from twinbus.process.cluster_entities import ClusterEntities
from twinbus.process.cluster_member import (
    ClusterMetrics,
    checked_stores,
    cluster_member,
)
from twinbus.process.data_folder import DataFolder
from twinbus.process.figures import ServerFigures
from twinbus.process.listener import Listener
from twinbus.process.pair_syphon import PairSyphon
from twinbus.process.seat import HTTP_PORT, PORT, TLS_PORT, Seat
from twinbus.process.server_condition import ServerCondition
from twinbus.process.server_diagnosis import ASKED_FOR, ServerDiagnosis
from twinbus.store.base import Store, StoreError
from twinbus.store.catalog import Catalog
from twinbus.throttling.thresholds import Thresholds
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
        self.transaction_limits = _transaction_limits(config)
        self.extensions = _extensions(config)
        self.entropy: Callable[[int], bytes] = os.urandom
        # None: no TLS.
        self.tls = tls
        # What fails on purpose; None if that is not allowed.
        self.faults = self._allowed_faults()
        opened = folder.stores(sharing) if stores is None else stores
        self.owners = Owners([self._owner(store) for store in opened], sharing)
        self._catalog = catalog or folder.catalog()
        self.namespace = self._made_namespace()
        self.throttle = self._throttle()
        # None: no other broker shares the stores.
        self.broker = self._member(opened)
        # The syphon that this server runs, if it is configured.
        self.pair = _pair_of(config, self.clock)
        self._connections = Connections(_places(config.max_connections))
        self.figures = self._measured()
        self.held = HeldBytes()
        self.strangers_held = MemoryShare(
            "that have shown no key",
            *(STRANGERS_BYTES, STRANGER_SPARED_BYTES, self.clock),
        )
        self.clients_held = _share_of_clients(config, self.clock)
        self.diagnosis = self._diagnosis()
        self.condition = ServerCondition(
            self.diagnosis, list(self.owners), self.clock, config.watchdog_seconds
        )
        self.gateway = self._gateway()
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

    def _made_namespace(self) -> Namespace:
        config = self._config
        return Namespace(
            config.namespace,
            self._catalog,
            self.owners,
            self.clock,
            os.urandom,
            self.turns,
            rules=self._rules(),
            max_entities=config.max_entities,
            max_message_bytes=config.max_message_bytes,
            max_entity_message_bytes=config.max_entity_message_bytes,
            max_entity_megabytes=config.max_entity_megabytes,
            topic_quotas=_topic_quotas(config),
            partitioning=_partitioning(config),
            transfer=_transfer_settings(config),
            extensions=self.extensions,
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
            _thresholds(self._config), owners, self._config.namespace, self.clock
        )
        for owner in owners:
            owner.health.meter = CommitMeter(throttle.spent)
        self.namespace.check_not_busy = throttle.check
        return throttle

    def _gateway(self) -> Gateway:
        return Gateway(
            Administration(self.namespace, self.clock, os.urandom),
            Health(checked_stores(self.owners)),
            Metrics(self.figures, self.namespace, self.clock),
            self._bulk(),
            FaultRequests(self.namespace, self.clock, self.faults),
            DiagnosisRequests(
                self.namespace, self.clock, lambda: self.diagnosis.write(ASKED_FOR)
            ),
        )

    def _diagnosis(self) -> ServerDiagnosis:
        return ServerDiagnosis(
            self._config,
            self.root_key.text,
            self.clock,
            list(self.owners),
            lambda: [each.described() for each in self._connections],
        )

    def _bulk(self) -> Bulk | None:
        if self._config.strict:
            return None
        entities = BulkEntities(self.namespace)
        if self.faults is None:
            return Bulk(entities, self.clock, self.held)
        caller = partial(FaultyCaller, self.faults)
        return Bulk(entities, self.clock, self.held, caller)

    def _measured(self) -> ServerFigures:
        return ServerFigures(
            self.namespace,
            self.owners,
            self.clock,
            lambda: len(self._connections),
            is_strict=self._config.strict,
        )

    def _rules(self) -> tuple[AuthorizationRule, ...]:
        root = AuthorizationRule(
            key_name=ROOT_KEY_NAME, primary_key=self.root_key.text, claims=Claim.MANAGE
        )
        others = [authorization_rule(rule, "") for rule in self._config.rules]
        return (root, *others)

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
        remembered = await self.namespace.remembered_stores()
        description = f"twinbus serve, namespace {self._config.namespace}"
        if self._seat.name:
            description += f", broker {self._seat.name}"
        await self.owners.open(description, remembered)
        await self.namespace.open()
        self.owners.start()
        self.namespace.start()
        # Brokers that share stores find them made.
        if self.broker is None:
            await make_declared(self.namespace, self._config, self.clock.now())

    async def _join(self, broker: Broker) -> None:
        """Raises StoreError, OSError."""
        host = self._config.host
        key = await self._catalog.cluster_key()
        policy = cluster_policy(key)

        def admit(connected: socket.socket) -> None:
            self._admit(connected, lambda: PeerDoor(self, policy))

        own = Listener.at(host, 0, admit)
        self._listeners.append(own)
        self.peers.join(broker.directory.address_of, key)
        others = ClusterEntities(self.peers, broker.directory)
        self.namespace.stores.others = self.namespace.follower.others = others
        broker.address = f"{host}:{own.port}"
        self.gateway.metrics.registry.register(ClusterMetrics(broker, self.owners))
        await self.namespace.follower.follow()
        await broker.join()

    async def _start_pair(self, pair: PairSyphon) -> None:
        """Raises ConfigError."""
        authority = ca_file(self._config)
        is_own = self.tls is not None and authority.exists()
        try:
            await pair.start(
                self.namespace,
                self.connection_string,
                str(authority) if is_own else None,
                PairMetrics(self.gateway.metrics.registry).of(pair.primary_name),
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
        for_peers: Callable[[], AmqpConnection] | None = None,
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
        self.condition.tick()
        self.owners.tick()
        self.throttle.tick()
        monotonic = self.clock.monotonic()
        if monotonic - self._connections_ticked_at >= _CONNECTION_TICK_MS:
            self._connections_ticked_at = monotonic
            now = self.clock.now()
            self.namespace.tick(now)
            for connection in self._connections:
                connection.tick(now, monotonic)
            if self.peers.is_cluster:
                self.peers.tick(monotonic)
                self._detach_moved()
        self.outputs.flush()

    def _detach_moved(self) -> None:
        """Lead clients to where stores are served now."""
        moved, returned = self.peers.moves.look(self.owners)
        if not moved and not returned:
            return
        for entity in list(self.namespace.entities()):
            if not moved.isdisjoint(entity.homes()):
                entity.detach_all(store_moved(entity.path))
            elif entity.is_partitioned and not returned.isdisjoint(entity.homes()):
                entity.detach_receivers(store_moved(entity.path))

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
        await self._finish()
        await self._close_connections()
        await self._close_data()

    def _close_listeners(self) -> None:
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
        await self.namespace.close()


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


def _share_of_clients(config: Config, clock: Clock) -> MemoryShare:
    largest = max(config.max_message_bytes, config.max_entity_message_bytes)
    limit = max(CLIENTS_BYTES, 2 * largest)
    return MemoryShare("of clients", limit, CLIENT_SPARED_BYTES, clock)


def _places(max_connections: int) -> int:
    """As many connections as configured, limited by the number of files that the
    process may open: without free files it could accept no client at all."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY or files - FILES_RESERVED >= max_connections:
        return max_connections
    places = max(files - FILES_RESERVED, 1)
    _log.warning(
        "max_connections is %d, but the process may open %d files only: there is room "
        "for %d connections. Raise the limit of open files (ulimit -n).",
        *(max_connections, files, places),
    )
    return places


def _thresholds(config: Config) -> Thresholds:
    return Thresholds(
        cpu_percent=config.throttle_cpu_percent,
        memory_percent=config.throttle_memory_percent,
        commit_ms=config.throttle_commit_ms,
        free_megabytes=config.throttle_free_megabytes,
        operations_per_second=config.throttle_operations,
        burst=config.throttle_burst or config.throttle_operations,
    )


def _topic_quotas(config: Config) -> TopicQuotas:
    return TopicQuotas(
        subscriptions=config.max_subscriptions_per_topic,
        sql_rules=config.max_sql_rules_per_topic,
        correlation_rules=config.max_correlation_rules_per_topic,
    )


def _partitioning(config: Config) -> Partitioning:
    return Partitioning(
        fragment_count=config.fragments,
        max_entities=config.max_partitioned_entities,
        is_forced=config.partition_all,
    )


def _transaction_limits(config: Config) -> TransactionLimits:
    return TransactionLimits(
        config.transaction_seconds * 1000,
        config.max_transaction_messages,
        config.max_transaction_bytes,
        config.max_transactions,
    )


def _transfer_settings(config: Config) -> TransferSettings:
    return TransferSettings(
        conventional=config.transfer_conventional.lower() == "on",
        keyed=config.transfer_keyed.lower() == "on",
        limit_ms=duration_ms(config.transfer_limit),
    )


def _extensions(config: Config) -> Extensions:
    return Extensions(
        is_strict=config.strict, send_id_window_ms=duration_ms(config.send_id_window)
    )
