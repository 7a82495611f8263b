"""Partitioning of new entities: how many fragments they get, and how large they are.

A partitioned entity has the size of its description in each fragment. Clients see the
total, and may send that total back in an update.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.broker.descriptions.topic import TopicDescription
from twinbus.entities.entity import Description, Entity
from twinbus.errors import ArgumentOutOfRange
from twinbus.limits import (
    FRAGMENT_MEGABYTES,
    FRAGMENTS_PER_ENTITY,
    PARTITIONED_ENTITIES,
)

_SIZE: Final = "max_size_in_megabytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The settings of a server."""

    # Fragments of a new partitioned entity.
    fragment_count: int = FRAGMENTS_PER_ENTITY
    # Partitioned queues and topics of a namespace.
    max_entities: int = PARTITIONED_ENTITIES
    # Every new queue and topic is partitioned, whatever its description says.
    is_forced: bool = False


DOCUMENTED_PARTITIONING: Final = Partitioning()


def partitioned(description: Description) -> bool:
    """The description asks for partitioning. Subscriptions follow their topics."""
    return getattr(description, "enable_partitioning", False)


def check_fragment_size(path: str, description: Description) -> None:
    """Raises ArgumentOutOfRange if a fragment would be too large."""
    size: int = getattr(description, _SIZE, 0)
    if partitioned(description) and size > FRAGMENT_MEGABYTES:
        raise ArgumentOutOfRange(
            f"Property '{_SIZE}' of '{path}' is {size}; it counts for each fragment of "
            f"a partitioned entity, and must be at most {FRAGMENT_MEGABYTES}.",
            entity_path=path,
        )


def shown_description(entity: Entity) -> Description:
    """The description as clients see it: with the size of all fragments together."""
    description = entity.description
    if not entity.is_partitioned:
        return description
    if isinstance(description, QueueDescription | TopicDescription):
        total = description.max_size_in_megabytes * entity.fragment_count
        return replace(description, max_size_in_megabytes=total)
    return description


def without_total(properties: Mapping[str, Any], entity: Entity) -> Mapping[str, Any]:
    """The properties of an update. One that repeats the total size that the client was
    shown does not change the size."""
    size = properties.get(_SIZE)
    if size is None or size != getattr(shown_description(entity), _SIZE, None):
        return properties
    return {name: value for name, value in properties.items() if name != _SIZE}
