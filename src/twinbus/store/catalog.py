"""What a catalog is: which entities exist, and where their fragments are (D4, D5).

Kept apart from the messages, because a partitioned entity has fragments in many
stores. Placement is recorded when an entity is created and never computed again:
adding a store changes nothing that exists. Brokers cache the catalog; while it is
away only management stops.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRecord:
    """One entity of a namespace."""

    namespace: str
    # As it was created; compared without case.
    path: str
    # "queue"; later floors add "topic", "subscription".
    kind: str
    # One life of the path: a new one for every creation.
    generation: bytes
    description: Mapping[str, Any]
    created_at: int
    updated_at: int
    # Store uuid of each fragment, by index.
    placement: tuple[bytes, ...]


class Catalog(Protocol):
    """Durable entity descriptions."""

    async def open(self) -> list[EntityRecord]:
        """All entities. Raises StoreUnreadable."""
        ...

    async def put(self, entity: EntityRecord) -> None:
        """Create an entity or replace its description, durably."""
        ...

    async def remove(self, namespace: str, paths: Sequence[str]) -> None:
        """Forget entities, durably: all of them or none."""
        ...

    async def close(self) -> None: ...
