"""Other brokers, as those who make and change entities need them.

A new entity may have fragments in stores of other brokers: these make them, before the
catalog has the entity. After a change of the catalog they are told to follow it, so
that a client finds the change wherever it asks next. What is not in the catalog, counts
and rules of conventional subscriptions, is asked from the broker that has the store.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

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

    async def check_made(
        self, record: EntityRecord, store_uuids: Sequence[bytes]
    ) -> None:
        """These stores still have the fragments of an entity that is being created.
        Raises ServiceBusError."""
        ...

    async def tell(
        self, entities: Sequence[Entity], *, with_links: bool = False
    ) -> bool:
        """Let entities learn what other brokers know: what is in their fragments there,
        and the rules of conventional subscriptions. False if a broker did not answer
        soon; then its part is missing. With links: brokers that have none of its
        fragments are asked when it was last used, because clients may be there."""
        ...

    async def change_rule(
        self, store_uuid: bytes, operation: str, path: str, rule: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Have a rule of a subscription at this path added, updated or removed by the
        broker that serves the store; returns the rule. Raises ServiceBusError."""
        ...

    async def follow(self) -> None:
        """Tell them that the catalog has changed, and wait until they know it. Those
        that do not answer for long follow by themselves."""
        ...


class NoOthers:
    """There is one broker."""

    def serves(self, store_uuid: bytes) -> bool:
        return False

    async def make_fragments(
        self, record: EntityRecord, store_uuids: Sequence[bytes], rules: Sequence[Rule]
    ) -> None:
        raise AssertionError("there is no other broker")

    async def check_made(
        self, record: EntityRecord, store_uuids: Sequence[bytes]
    ) -> None:
        raise AssertionError("there is no other broker")

    async def tell(
        self, entities: Sequence[Entity], *, with_links: bool = False
    ) -> bool:
        return True

    async def change_rule(
        self, store_uuid: bytes, operation: str, path: str, rule: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        raise AssertionError("there is no other broker")

    async def follow(self) -> None:
        """Nobody is to be told."""
