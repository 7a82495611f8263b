"""The entities of a namespace as the records of the catalog describe them."""

from collections.abc import Callable, Iterable
from typing import Final

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


def description_of(record: EntityRecord) -> Description:
    return _READERS[record.kind](record.properties, record.path)


def entity_order(record: EntityRecord) -> int:
    """Sorts records so that topics come before their subscriptions."""
    return _KINDS.index(record.kind)


def entities_of(namespace: str, records: Iterable[EntityRecord]) -> list[EntityRecord]:
    """Those of the namespace, without the record of the namespace itself. Topics come
    before their subscriptions."""
    key = namespace.lower()
    known = [
        record
        for record in records
        if record.kind in _KINDS and record.namespace.lower() == key
    ]
    return sorted(known, key=entity_order)
