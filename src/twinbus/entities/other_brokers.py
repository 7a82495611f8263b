"""Other brokers, as those who make and change entities need them.

A new entity may have fragments in stores of other brokers: these make them, before the
catalog has the entity. After a change of the catalog they are told to follow it, so
that a client finds the change wherever it asks next.
"""

from collections.abc import Sequence
from typing import Protocol

from twinbus.entities.entity import Entity
from twinbus.rules.rule import Rule
from twinbus.store.catalog import EntityRecord


class OtherBrokers(Protocol):
    """The brokers of the cluster besides this one."""

    def serves(self, store_uuid: bytes) -> bool:
        """One of them serves the store now."""
        ...

    async def make_fragments(
        self, record: EntityRecord, store_uuids: Sequence[bytes], rules: Sequence[Rule]
    ) -> None:
        """Have the entity's fragments made in these stores. Raises ServiceBusError."""
        ...

    async def ask_for_counts(self, entity: Entity) -> None:
        """Let the entity learn what is in its fragments elsewhere. It is not told of
        those whose brokers do not answer soon."""
        ...

    async def follow(self) -> None:
        """Tell them that the catalog has changed, and wait for a moment."""
        ...


class NoOthers:
    """There is one broker."""

    def serves(self, store_uuid: bytes) -> bool:
        return False

    async def make_fragments(
        self, record: EntityRecord, store_uuids: Sequence[bytes], rules: Sequence[Rule]
    ) -> None:
        raise AssertionError("there is no other broker")

    async def ask_for_counts(self, entity: Entity) -> None:
        """All fragments are here."""

    async def follow(self) -> None:
        """Nobody is to be told."""
