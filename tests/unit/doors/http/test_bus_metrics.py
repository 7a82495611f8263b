"""Which metrics there are, and which entities have their own lines."""

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from twinbus.doors.http.bus_metrics import (
    EntityFigures,
    ProcessFigures,
    entity_families,
    fullest,
    process_families,
    sum_families,
)


def figures(path: str, active: int = 0, dead: int = 0, size: int = 0) -> EntityFigures:
    return EntityFigures(
        path=path,
        kind="queue",
        messages=(active, 0, 0, dead, 0),
        size_bytes=size,
        enqueued=active + dead,
        pings=0,
    )


class Registered:
    """Families in a registry, which checks them."""

    def __init__(self, *families: Metric) -> None:
        self._families = families
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> tuple[Metric, ...]:
        return self._families

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"twinbus_{name}", labels)


def test_the_bus_says_what_it_is_and_how_it_is() -> None:
    found = Registered(
        *process_families(
            ProcessFigures(
                version="1.2",
                form="plain",
                namespace="site-a",
                is_strict=True,
                started_at=1_500,
                connections=3,
                commits=7,
                is_under_pressure=False,
                is_store_full=True,
                is_throttled=True,
            )
        )
    )
    assert found.value("info", version="1.2", form="plain", namespace="site-a") == 1
    assert found.value("start_time_seconds") == 1.5
    assert found.value("connections") == 3
    assert found.value("commits_total") == 7
    assert (found.value("strict"), found.value("store_full")) == (1, 1)
    assert found.value("throttled") == 1
    assert found.value("reading_paused") == 0


def test_sums_are_those_of_all_entities() -> None:
    entities = [figures("a", active=2, size=10), figures("b", active=3, dead=1, size=5)]
    found = Registered(*sum_families(entities, shown=1))
    assert found.value("messages", state="active") == 5
    assert found.value("messages", state="dead_letter") == 1
    assert found.value("entities", kind="queue") == 2
    assert found.value("entities", kind="topic") == 0
    assert found.value("size_bytes") == 15
    assert found.value("entities_left_out") == 1


def test_the_fullest_entities_go_first() -> None:
    entities = [figures("b"), figures("full", dead=9), figures("a"), figures("c", 1)]
    assert [item.path for item in fullest(entities, 3)] == ["full", "c", "a"]
    assert fullest(entities, 0) == []


def test_an_entity_has_its_messages_by_state() -> None:
    found = Registered(*entity_families([figures("orders", active=2, dead=1, size=99)]))
    labels = {"entity": "orders", "kind": "queue"}
    assert found.value("entity_messages", **labels, state="active") == 2
    assert found.value("entity_messages", **labels, state="dead_letter") == 1
    assert found.value("entity_messages", **labels, state="scheduled") == 0
    assert found.value("entity_size_bytes", **labels) == 99
    assert found.value("entity_enqueued_total", **labels) == 3
    assert found.value("entity_pings_total", **labels) == 0
