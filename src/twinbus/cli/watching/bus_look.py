"""One look at a bus: its entities, and what its metrics say of brokers and pair."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twinbus.cli.entity_choice import chosen_entities
from twinbus.cli.entity_questions import ask_server
from twinbus.cli.own_requests import ask_text
from twinbus.clock import SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class BusLook:
    """What was seen, and when."""

    # Milliseconds on a clock that is never set.
    taken_at: int
    entities: list[dict[str, Any]]
    # Values by name of the metric and its labels.
    metrics: dict[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)

    def value(self, name: str) -> float:
        return sum(value for _, value in self.metrics.get(name, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRow:
    """An entity between two looks."""

    path: str
    kind: str
    status: str
    active: int
    scheduled: int
    deferred: int
    dead_letter: int
    size_bytes: int
    # In a second; None at the first look.
    in_per_second: float | None
    out_per_second: float | None
    # Those who read it alone.
    readers: list[str]


def look(flags: Mapping[str, Any], patterns: Iterable[str]) -> BusLook:
    """Entities whose paths match one of the patterns; all without any. Raises
    Failure."""
    found = chosen_entities(ask_server(flags, "list-entities"), list(patterns))
    metrics = _metrics(ask_text(flags, "/metrics?entities=0"))
    return BusLook(taken_at=SystemClock().monotonic(), entities=found, metrics=metrics)


def _metrics(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def entity_rows(now: BusLook, before: BusLook | None) -> list[EntityRow]:
    """One for each entity, with rates if there was a look before."""
    known = {} if before is None else {one["path"]: one for one in before.entities}
    seconds = 0.0 if before is None else (now.taken_at - before.taken_at) / 1000
    return [_row(one, known.get(one["path"]), seconds) for one in now.entities]


def _row(
    entity: dict[str, Any], before: dict[str, Any] | None, seconds: float
) -> EntityRow:
    counts = entity["counts"]
    arrived, left = _rates(entity, before, seconds)
    return EntityRow(
        path=entity["path"],
        kind=entity["kind"],
        status=entity["properties"]["status"],
        active=counts["active"],
        scheduled=counts["scheduled"],
        deferred=counts["deferred"],
        dead_letter=counts["dead_letter"],
        size_bytes=entity["size_bytes"],
        in_per_second=arrived,
        out_per_second=left,
        readers=[lease["reader"] for lease in entity["reader_leases"]],
    )


def _rates(
    entity: dict[str, Any], before: dict[str, Any] | None, seconds: float
) -> tuple[float | None, float | None]:
    """Messages that came, and that left: completed, expired or dead-lettered."""
    # Created again: another entity, with counts of its own.
    if before is None or seconds <= 0 or before["created_at"] != entity["created_at"]:
        return None, None
    arrived = entity["enqueued_count"] - before["enqueued_count"]
    left = arrived - (_held(entity) - _held(before))
    if entity["kind"] == "topic":
        left = arrived
    return max(arrived, 0) / seconds, max(left, 0) / seconds


def _held(entity: dict[str, Any]) -> int:
    counts = entity["counts"]
    return int(counts["active"] + counts["deferred"])
