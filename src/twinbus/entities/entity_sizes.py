"""Maximum sizes of messages and entities: settings of the server and of each entity."""

from twinbus.broker.transfer_queue import is_transfer_queue
from twinbus.entities.entity import Description, Entity
from twinbus.entities.queue import Queue
from twinbus.errors import ArgumentOutOfRange


class EntitySizes:
    """The size limits of one server."""

    def __init__(
        self,
        max_message_bytes: int,
        max_entity_message_bytes: int,
        max_entity_megabytes: int,
        headroom_bytes: int,
    ) -> None:
        # The default for an entity, and the largest value that an entity may set.
        self.max_message_bytes: int = max_message_bytes
        self._max_entity_message_bytes = max(
            max_message_bytes, max_entity_message_bytes
        )
        self._max_entity_megabytes = max_entity_megabytes
        self._headroom_bytes = headroom_bytes

    def max_message_bytes_of(self, entity: Entity) -> int:
        """The largest message that the entity accepts."""
        limit = own_message_bytes(entity.description) or self.max_message_bytes
        return limit + self.headroom_bytes_of(entity)

    def headroom_bytes_of(self, entity: Entity) -> int:
        """The part of it that is reserved for what pairing adds to a message."""
        if isinstance(entity, Queue) and is_transfer_queue(entity.path):
            return self._headroom_bytes
        return 0

    def check(
        self, path: str, description: Description, before: Description | None
    ) -> None:
        """A new value must be within the settings; an old one stays valid after they
        are lowered. Raises ArgumentOutOfRange."""
        for name, limit, setting in (
            (
                "max_message_size_in_kilobytes",
                self._max_entity_message_bytes // 1024,
                "max_entity_message_bytes",
            ),
            (
                "max_size_in_megabytes",
                self._max_entity_megabytes,
                "max_entity_megabytes",
            ),
        ):
            size: int = getattr(description, name, 0)
            if size > limit and size != getattr(before, name, 0):
                raise ArgumentOutOfRange(
                    f"Property '{name}' of '{path}' is {size}; this server allows "
                    f"{limit}. Raise its setting '{setting}' to allow more.",
                    entity_path=path,
                )


def own_message_bytes(description: Description) -> int:
    """The entity's own maximum; 0 if it has none."""
    size_kb: int = getattr(description, "max_message_size_in_kilobytes", 0)
    return size_kb * 1024
