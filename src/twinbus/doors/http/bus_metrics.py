"""The metrics of the bus, as metric families for Prometheus.

Nothing is counted for metrics: all figures are counters that the bus has anyway. There
may be very many entities, so only those with the most messages have lines of their own;
the sums include all entities.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final, NamedTuple, Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)

STATES: Final = (
    "active",
    "deferred",
    "scheduled",
    "dead_letter",
    "transfer_dead_letter",
)
"""The states of messages: values of the label `state`."""

STORE_STATES: Final = ("opening", "serving", "unavailable", "lost", "elsewhere")
"""What a store can be: values of the label `state`."""

_OF_ENTITY: Final = ("entity", "kind")


class LeaseFigures(NamedTuple):
    """A reader lease."""

    path: str
    reader: str
    # Until it ends, if it is not renewed.
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityFigures:
    """Figures of one queue, topic or subscription."""

    path: str
    kind: str
    # In the order of STATES.
    messages: tuple[int, ...]
    size_bytes: int
    # Number of messages ever enqueued.
    enqueued: int
    # Number of pings since the start.
    pings: int
    leases: tuple[LeaseFigures, ...] = ()
    # Empty if the server has one namespace: then it is not shown.
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """Figures of the whole bus."""

    version: str
    # Compiled or plain Python.
    form: str
    namespace: str
    is_strict: bool
    started_at: int
    connections: int
    commits: int
    # Reading from clients is paused, because too much waits for the store.
    is_under_pressure: bool
    # The store was full recently.
    is_store_full: bool
    # A threshold is passed, of the process or of a store.
    is_throttled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFigures:
    """Figures of one store."""

    name: str
    # One of STORE_STATES.
    state: str
    is_full: bool
    # Since the start of the process.
    commits: int
    commit_seconds: float
    # Of the commit that is under way; 0: none is.
    committing_seconds: float
    # Since it last failed; None: it did not.
    error_age_seconds: float | None


EntityName = tuple[str, str]
"""The namespace, which is empty if there is only one, and the path."""


class MeasuredBus(Protocol):
    """What metrics are made from."""

    def process_figures(self) -> ProcessFigures: ...

    def store_figures(self) -> Sequence[StoreFigures]: ...

    def entity_names(self) -> Sequence[EntityName]:
        """Of all queues, topics and subscriptions."""
        ...

    def entity_figures(self, names: Sequence[EntityName]) -> list[EntityFigures]:
        """Figures of those entities that still exist."""
        ...


def process_families(figures: ProcessFigures) -> Iterable[Metric]:
    """Metrics of the whole bus."""
    yield InfoMetricFamily(
        "twinbus",
        "Version and form of the bus, and its namespace.",
        {
            "version": figures.version,
            "form": figures.form,
            "namespace": figures.namespace,
        },
    )
    yield _gauge("strict", "1: offers Service Bus and nothing else.", figures.is_strict)
    yield _gauge(
        "start_time_seconds",
        "When the bus started, in seconds since 1970.",
        figures.started_at / 1000,
    )
    yield _gauge("connections", "Open connections of clients.", figures.connections)
    yield _counter("commits", "Commits of the store, ever.", figures.commits)
    yield _gauge(
        "reading_paused",
        "1: clients are not read because too much waits for the store.",
        figures.is_under_pressure,
    )
    yield _gauge("store_full", "1: the store has no room.", figures.is_store_full)
    yield _gauge(
        "throttled", "1: messages are refused to spare the bus.", figures.is_throttled
    )


def store_families(stores: Sequence[StoreFigures]) -> Iterable[Metric]:
    """Metrics of each store."""
    state = GaugeMetricFamily(
        "twinbus_store_state",
        "1: the state that a store is in.",
        labels=("store", "state"),
    )
    full = _of_store("without_room", "1: this store has no room.")
    commits = CounterMetricFamily(
        "twinbus_store_commits",
        "Commits of a store since the start.",
        labels=("store",),
    )
    seconds = CounterMetricFamily(
        "twinbus_store_commit_seconds",
        "Time that they took, all together.",
        labels=("store",),
    )
    under_way = _of_store("committing_seconds", "How long its commit takes so far.")
    error_age = _of_store("error_age_seconds", "Time since a store last failed.")
    for store in stores:
        for name in STORE_STATES:
            state.add_metric((store.name, name), name == store.state)
        full.add_metric((store.name,), store.is_full)
        commits.add_metric((store.name,), store.commits)
        seconds.add_metric((store.name,), store.commit_seconds)
        under_way.add_metric((store.name,), store.committing_seconds)
        if store.error_age_seconds is not None:
            error_age.add_metric((store.name,), store.error_age_seconds)
    return state, full, commits, seconds, under_way, error_age


def _of_store(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"twinbus_store_{name}", text, labels=("store",))


def sum_families(entities: Sequence[EntityFigures], shown: int) -> Iterable[Metric]:
    """Sums over all entities."""
    kinds = GaugeMetricFamily("twinbus_entities", "Entities by kind.", labels=("kind",))
    for kind in ("queue", "topic", "subscription"):
        kinds.add_metric((kind,), sum(entity.kind == kind for entity in entities))
    yield kinds
    messages = GaugeMetricFamily(
        "twinbus_messages", "Messages of all entities.", labels=("state",)
    )
    for index, state in enumerate(STATES):
        messages.add_metric((state,), sum(item.messages[index] for item in entities))
    yield messages
    yield _gauge(
        "size_bytes",
        "Size of the messages of all entities.",
        sum(entity.size_bytes for entity in entities),
    )
    yield _gauge(
        "entities_left_out",
        "Entities without lines of their own: ask with ?entities=N.",
        len(entities) - shown,
    )


def lease_families(entities: Sequence[EntityFigures]) -> Iterable[Metric]:
    """All reader leases: there are few, and they say why receivers get nothing."""
    left = GaugeMetricFamily(
        "twinbus_reader_lease_seconds",
        "Time until a reader lease ends, if it is not renewed. Receivers wait for it.",
        labels=(*_of_namespace(entities), "entity", "reader"),
    )
    for entity in entities:
        for lease in entity.leases:
            labels = (*_named(entity), lease.path, lease.reader)
            left.add_metric(labels, lease.seconds)
    yield left


def fullest(entities: Iterable[EntityFigures], count: int) -> list[EntityFigures]:
    """The entities with the most messages; equal ones sorted by path."""
    return nsmallest(count, entities, lambda item: (-sum(item.messages), item.path))


def entity_families(entities: Sequence[EntityFigures]) -> Iterable[Metric]:
    """Metrics of each of these entities."""
    of_entity = (*_of_namespace(entities), *_OF_ENTITY)
    messages = GaugeMetricFamily(
        "twinbus_entity_messages",
        "Messages of an entity.",
        labels=(*of_entity, "state"),
    )
    size = GaugeMetricFamily(
        "twinbus_entity_size_bytes",
        "Size of its messages, dead letters included.",
        labels=of_entity,
    )
    enqueued = CounterMetricFamily(
        "twinbus_entity_enqueued", "Messages ever enqueued.", labels=of_entity
    )
    pings = CounterMetricFamily(
        "twinbus_entity_pings", "Pings of paired senders.", labels=of_entity
    )
    for entity in entities:
        labels = (*_named(entity), entity.path, entity.kind)
        for state, count in zip(STATES, entity.messages, strict=True):
            messages.add_metric((*labels, state), count)
        size.add_metric(labels, entity.size_bytes)
        enqueued.add_metric(labels, entity.enqueued)
        pings.add_metric(labels, entity.pings)
    return messages, size, enqueued, pings


def _of_namespace(entities: Sequence[EntityFigures]) -> tuple[str, ...]:
    """The label for namespaces, where there are several."""
    return ("namespace",) if any(one.namespace for one in entities) else ()


def _named(entity: EntityFigures) -> tuple[str, ...]:
    return (entity.namespace,) if entity.namespace else ()


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"twinbus_{name}", text, value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"twinbus_{name}", text, value)
