"""The doors of HTTP: a gateway for each namespace, and one that finds it.

Health, metrics of the process, faults and diagnoses are about the whole server. So
faults, diagnoses and other namespaces are managed at the default namespace only.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from twinbus.auth.policy import Policy
from twinbus.doors.http.administration.administration import Administration
from twinbus.doors.http.bulk.bulk import Bulk
from twinbus.doors.http.bulk.peer_bulk import PeerBulk
from twinbus.doors.http.diagnosis_requests import DiagnosisRequests
from twinbus.doors.http.fault_requests import FaultRequests
from twinbus.doors.http.faulty_connection import FaultyCaller
from twinbus.doors.http.fellow_brokers import (
    CLEAR_FAULTS,
    COPY_FAULT,
    DIAGNOSE,
    LIST_FAULTS,
)
from twinbus.doors.http.gateway import Gateway
from twinbus.doors.http.health import Health
from twinbus.doors.http.host_gateway import HostGateway
from twinbus.doors.http.messaging.messaging import HttpMessaging
from twinbus.doors.http.messaging.remote_messaging import RemoteMessaging
from twinbus.doors.http.metrics import Metrics
from twinbus.doors.http.namespace_requests import NamespaceRequests
from twinbus.doors.http.peer_gateway import PeerGateway
from twinbus.doors.http.peer_management import PeerManagement
from twinbus.entities.namespace import Namespace
from twinbus.faults.broker_faults import BrokerFaults, next_of_share
from twinbus.operations.bulk.bulk_entities import BulkEntities
from twinbus.process.cluster_bulk import ClusterBulk
from twinbus.process.cluster_requests import ClusterRequests
from twinbus.process.fault_spreading import FaultSpreading
from twinbus.process.server_diagnosis import ASKED_FOR

if TYPE_CHECKING:
    from twinbus.process.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpDoor:
    """What answers the HTTP requests of one namespace."""

    # None if the bus is strict.
    bulk: Bulk | None
    messaging: HttpMessaging
    gateway: Gateway
    # None without other brokers, and if the bus is strict.
    peer_bulk: PeerBulk | None = None


class HttpDoors:
    """Of one server."""

    def __init__(self, server: "Server", health: Health) -> None:
        self._server = server
        self._health = health
        # What other brokers need: the key of the cluster, and what accepts it.
        self._cluster: tuple[bytes, Policy] | None = None
        faults = server.faults
        self._broker_faults = (
            None if faults is None else BrokerFaults(faults.table, server.clock)
        )
        self._faults = FaultRequests(
            server.namespace, server.clock, self._broker_faults
        )
        self._diagnoses = DiagnosisRequests(
            *(server.namespace, server.clock),
            lambda: server.diagnosis.write(ASKED_FOR),
        )
        # None without other brokers, and if faults are not allowed.
        self._spreading: FaultSpreading | None = None
        self.default = self._made(server.namespace)
        self._doors: dict[Namespace, HttpDoor] = {server.namespace: self.default}
        self.gateway = HostGateway(server.namespaces, lambda one: self._of(one).gateway)

    def __iter__(self) -> Iterator[HttpDoor]:
        return iter(list(self._doors.values()))

    def _of(self, namespace: Namespace) -> HttpDoor:
        """Made when it is first used: most of many namespaces are used by AMQP."""
        found = self._doors.get(namespace)
        if found is None:
            found = self._doors[namespace] = self._made(namespace)
        return found

    def removed(self, namespace: Namespace) -> None:
        found = self._doors.pop(namespace, None)
        if found is not None:
            found.messaging.stop_waiting()

    def tick(self) -> None:
        for door in self:
            door.messaging.tick()
        if self._spreading is not None:
            self._spreading.look()

    def stop_waiting(self) -> None:
        """The server stops: requests that wait for messages are answered."""
        if self._spreading is not None:
            self._spreading.stop()
        for door in self:
            door.messaging.stop_waiting()

    # --- other brokers --------------------------------------------------------

    def join(self, key: bytes, policy: Policy) -> None:
        """This server is one of several brokers; `policy` accepts the key of the
        cluster. Those doors that exist are replaced by ones that know the others."""
        self._cluster = key, policy
        for namespace, door in list(self._doors.items()):
            self._doors[namespace] = self._joined(door, namespace)
        self.default = self._doors[self._server.namespace]
        self._manage_together(key)

    def _manage_together(self, key: bytes) -> None:
        """What is about the whole server is about all brokers from now on."""
        server = self._server
        assert server.broker is not None
        cluster = ClusterRequests(server.peers, server.broker, key, server.clock)
        self._faults.others = self._diagnoses.others = cluster
        if server.faults is None or self._broker_faults is None:
            return
        server.faults.table.next_number = lambda last: next_of_share(
            last, *cluster.position()
        )
        self._spreading = FaultSpreading(self._broker_faults, cluster)

    def peer_gateway(self, policy: Policy) -> PeerGateway:
        """What answers other brokers; `policy` accepts the key of the cluster."""
        actions = {
            LIST_FAULTS: self._list_faults,
            COPY_FAULT: self._copy_fault,
            CLEAR_FAULTS: self._clear_faults,
            DIAGNOSE: lambda _: self._diagnoses.write(),
        }
        management = PeerManagement(actions, self._server.clock, policy)
        return PeerGateway(self.gateway, self._peer_bulk_of, management)

    def _list_faults(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"faults": self._faults.allowed().all()}

    def _copy_fault(self, shown: dict[str, Any]) -> dict[str, Any]:
        self._faults.allowed().copy(shown)
        return {}

    def _clear_faults(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"faults": self._faults.allowed().clear(asked.get("number"))}

    def _peer_bulk_of(self, name: str) -> PeerBulk | None:
        """That of a namespace, by name; an empty one means the default."""
        server = self._server
        found = server.namespaces.named(name) if name else server.namespace
        return None if found is None else self._of(found).peer_bulk

    # --- making ---------------------------------------------------------------

    def _made(self, namespace: Namespace) -> HttpDoor:
        messaging, bulk = self._messaging(namespace), self._bulk(namespace)
        door = HttpDoor(
            bulk=bulk,
            messaging=messaging,
            gateway=self._gateway(namespace, bulk, messaging),
        )
        return self._joined(door, namespace)

    def _joined(self, door: HttpDoor, namespace: Namespace) -> HttpDoor:
        if self._cluster is None:
            return door
        server, (key, policy) = self._server, self._cluster
        is_default = namespace is server.namespace
        name = "" if is_default else namespace.name
        peers = server.peers if is_default else server.peers.within(name)
        door.messaging.others = RemoteMessaging(peers, namespace)
        if door.bulk is None:
            return door
        cluster = ClusterBulk(peers, key, server.clock, name)
        door.bulk.entities.others, door.bulk.relay = cluster, cluster.ask
        share = door.bulk.entities.here
        return HttpDoor(
            bulk=door.bulk,
            messaging=door.messaging,
            gateway=door.gateway,
            peer_bulk=PeerBulk(share, door.bulk, server.clock, policy),
        )

    def _caller(self, namespace: Namespace) -> Callable[..., FaultyCaller] | None:
        faults = self._server.faults
        if faults is None:
            return None
        return partial(FaultyCaller, faults.within(namespace.name))

    def _messaging(self, namespace: Namespace) -> HttpMessaging:
        server, caller = self._server, self._caller(namespace)
        if caller is None:
            return HttpMessaging(namespace, server.clock, server.held)
        return HttpMessaging(namespace, server.clock, server.held, caller)

    def _bulk(self, namespace: Namespace) -> Bulk | None:
        server, caller = self._server, self._caller(namespace)
        if server.extensions.is_strict:
            return None
        entities = BulkEntities(namespace)
        if caller is None:
            return Bulk(entities, server.clock, server.held)
        return Bulk(entities, server.clock, server.held, caller)

    def _gateway(
        self, namespace: Namespace, bulk: Bulk | None, messaging: HttpMessaging
    ) -> Gateway:
        server = self._server
        gateway = Gateway(
            Administration(namespace, server.clock, os.urandom),
            self._health,
            Metrics(
                *(server.figures.seen_from(namespace), namespace, server.clock),
                server.held,
            ),
            bulk,
            messaging=messaging,
        )
        if namespace is server.namespace:
            gateway.manage_server(
                self._faults,
                self._diagnoses,
                NamespaceRequests(server.making, namespace, server.clock),
            )
        return gateway
