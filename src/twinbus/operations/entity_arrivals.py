"""Makes the reader of messages that one caller sends to one entity."""

from collections.abc import Callable

from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.links.arrivals import Arrivals


def entity_arrivals(
    namespace: Namespace, entity: Entity, may_restore: Callable[[int], bool]
) -> Arrivals:
    """`may_restore`: whether the caller may send to the whole namespace at a given
    time."""
    return Arrivals(
        entity.path,
        namespace.extensions,
        namespace.sizes.max_message_bytes_of(entity),
        namespace.sizes.headroom_bytes_of(entity),
        may_restore,
    )
