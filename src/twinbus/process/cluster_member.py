"""This process as a broker of a cluster: its loop, and what others measure of it."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from twinbus.clock import Clock
from twinbus.cluster.announcement import Announcement
from twinbus.cluster.broker import Broker
from twinbus.cluster.shared_store import SharedStore
from twinbus.cluster.terms import TERM_MS
from twinbus.doors.http.health import CheckedStore
from twinbus.entities.namespace import Namespace
from twinbus.owner.store_owner import StoreOwner
from twinbus.process.seat import Seat
from twinbus.store.base import Store, StoreError
from twinbus.store.catalog import Catalog
from twinbus.store.formats import readable_formats
from twinbus.store.sqlite_catalog import FORMAT as CATALOG_FORMAT

_UUID_BYTES = 16


def cluster_member(
    seat: Seat,
    catalog: Catalog,
    stores: Sequence[tuple[StoreOwner, Store]],
    namespace: Namespace,
    clock: Clock,
    on_fatal: Callable[[StoreError], None],
) -> Broker:
    """The broker that this process is."""
    return Broker(
        catalog,
        [SharedStore(owner, store) for owner, store in stores],
        clock,
        os.urandom(_UUID_BYTES),
        name=seat.name,
        namespace=namespace.name,
        formats=readable_formats(CATALOG_FORMAT.version),
        follow=namespace.follower.follow,
        on_return=namespace.transfer_log.look_again,
        on_fatal=on_fatal,
        expected_count=seat.broker_count,
    )


def checked_stores(owners: Iterable[StoreOwner]) -> list[CheckedStore]:
    """For health checks. What another broker has is that one's business."""
    return [
        CheckedStore(
            name=owner.name, commit=owner.durable, is_here=partial(_is_here, owner)
        )
        for owner in owners
    ]


def _is_here(owner: StoreOwner) -> bool:
    return owner.is_wanted


def catalog_trouble(broker: Broker | None) -> str:
    """For health checks: why this broker cannot use the catalog, or empty. Then others
    have not heard of it for so long that they take its stores."""
    unheard_ms = 0 if broker is None else broker.unheard_ms()
    if unheard_ms < TERM_MS:
        return ""
    return f"it could not be reached for {unheard_ms // 1000} seconds."


class ClusterMetrics:
    """Metrics of the brokers that this one knows; collected by Prometheus' registry."""

    def __init__(self, broker: Broker, owners: Iterable[StoreOwner]) -> None:
        self._broker = broker
        self._owners = list(owners)

    def collect(self) -> Iterable[Metric]:
        names = {one.store_uuid: one.name for one in self._owners}
        return broker_families(self._broker.directory.brokers(), names)


def broker_families(
    brokers: Iterable[Announcement], store_names: Mapping[bytes, str]
) -> Iterable[Metric]:
    """Metrics of these brokers. The names of stores are by UUID."""
    alive = GaugeMetricFamily(
        "twinbus_broker_alive",
        "1: a broker that this one knows to be alive.",
        labels=("broker", "address"),
    )
    owner = GaugeMetricFamily(
        "twinbus_store_owner_epoch",
        "The epoch in which a broker owns a store; 0: it is taking it.",
        labels=("store", "broker"),
    )
    lease = GaugeMetricFamily(
        "twinbus_store_lease_seconds",
        "Time that was left of the lease of a store when its owner announced itself.",
        labels=("store", "broker"),
    )
    taken_at = GaugeMetricFamily(
        "twinbus_broker_last_takeover_seconds",
        "When a broker last took a store from one that was gone, in Unix time.",
        labels=("broker",),
    )
    for broker in brokers:
        alive.add_metric((broker.name, broker.address), 1)
        for uuid, epoch in broker.stores.items():
            owner.add_metric((store_names.get(uuid, uuid.hex()), broker.name), epoch)
        for uuid, held in broker.leases.items():
            if held.term_ms > 0:
                left = max(held.term_ms - held.age_ms, 0) / 1000
                lease.add_metric((store_names.get(uuid, uuid.hex()), broker.name), left)
        if broker.last_takeover is not None:
            taken_at.add_metric((broker.name,), broker.last_takeover.taken_at / 1000)
    return alive, owner, lease, taken_at
