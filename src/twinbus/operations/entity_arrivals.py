"""How the messages that one caller sends to one entity are read."""

from collections.abc import Callable

from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.links.arrivals import Arrivals


def entity_arrivals(
    namespace: Namespace, entity: Entity, may_restore: Callable[[int], bool]
) -> Arrivals:
    """`may_restore`: whether the caller may send to the whole namespace, at an
    instant."""
    return Arrivals(
        entity.path,
        namespace.extensions,
        namespace.sizes.max_message_bytes_of(entity),
        namespace.sizes.headroom_bytes_of(entity),
        may_restore,
    )
