"""The entities of a namespace as the records of the catalog describe them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from twinbus.broker.descriptions.queue import queue_description
from twinbus.broker.descriptions.subscription import subscription_description
from twinbus.broker.descriptions.topic import topic_description
from twinbus.entities.entity import Description
from twinbus.store.catalog import EntityRecord

_READERS: Final[dict[str, Callable[..., Description]]] = {
    "queue": queue_description,
    "topic": topic_description,
    "subscription": subscription_description,
}

_KINDS: Final = tuple(_READERS)

NAMESPACE: Final = "namespace"
"""Kind of the record that holds the creation time of the namespace, its stores and its
authorization rules."""


MADE: Final = "made"
"""In the description of that record: the namespace was made besides the default one,
and has a root rule of its own."""

_GENERATION_BYTES: Final = 16


def new_record(
    namespace: str,
    path: str,
    kind: str,
    description: Mapping[str, Any],
    placement: tuple[bytes, ...],
    now: int,
    entropy: Callable[[int], bytes],
) -> EntityRecord:
    """Of an entity, or of a namespace, that is created now."""
    return EntityRecord(
        namespace=namespace,
        path=path,
        kind=kind,
        generation=entropy(_GENERATION_BYTES),
        description=description,
        created_at=now,
        updated_at=now,
        placement=placement,
    )


def description_of(record: EntityRecord) -> Description:
    return _READERS[record.kind](record.properties, record.path)


def entity_order(record: EntityRecord) -> int:
    """Sorts records so that topics come before their subscriptions."""
    return _KINDS.index(record.kind)


def entities_by_namespace(
    records: Iterable[EntityRecord],
) -> dict[str, list[EntityRecord]]:
    """By lower-case name, without the records of the namespaces themselves. Topics come
    before their subscriptions."""
    found: dict[str, list[EntityRecord]] = {}
    for record in records:
        if record.kind in _KINDS:
            found.setdefault(record.namespace.lower(), []).append(record)
    return {name: sorted(known, key=entity_order) for name, known in found.items()}


def own_record(namespace: str, records: Iterable[EntityRecord]) -> EntityRecord | None:
    """That of the namespace itself."""
    key = namespace.lower()
    for record in records:
        if record.kind == NAMESPACE and record.namespace.lower() == key:
            return record
    return None


def is_made(record: EntityRecord) -> bool:
    """It is the record of a namespace that was made besides the default one."""
    return record.kind == NAMESPACE and bool(record.description.get(MADE))
