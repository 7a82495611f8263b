"""Asks other brokers to make fragments of entities, to follow the catalog, to tell what
is in their fragments, and to change rules."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.broker.changes import FragmentRecord
from twinbus.cluster.broker_directory import BrokerDirectory
from twinbus.entities.entity import Entity
from twinbus.entities.shown_leases import ShownLease
from twinbus.entities.subscription import Subscription
from twinbus.errors import (
    FragmentUnavailable,
    ServiceBusError,
    from_condition,
)
from twinbus.peers.peers import Peers
from twinbus.rules.rule import Rule
from twinbus.store.catalog import EntityRecord, stored_entity

_NODE: Final = "$management"

_FOLLOW_SECONDS: Final = 10.0
"""So long a change waits for brokers that do not know it yet. One that is frozen for
that long has been replaced."""

_ASK_AGAIN_SECONDS: Final = 0.1

_COUNT_SECONDS: Final = 1.0
"""How long others may take to tell what is in their fragments."""

_NAMED: Final = 100
"""Entities that are named in a question; if there are more, it is about all."""


class ClusterEntities:
    """The other brokers, as entities need them."""

    def __init__(self, peers: Peers, directory: BrokerDirectory) -> None:
        self._peers = peers
        self._directory = directory

    def serves(self, store_uuid: bytes) -> bool:
        return self._directory.address_of(store_uuid) is not None

    async def make_fragments(
        self, record: EntityRecord, store_uuids: Sequence[bytes], rules: Sequence[Rule]
    ) -> None:
        stored = stored_entity(record)
        value: dict[str, object] = {
            "generation": stored.generation,
            "definition": stored.definition,
            "rules": json.dumps([rule.to_json() for rule in rules]),
        }
        for address in self._serving(store_uuids, record.path):
            answer = await self._ask(address, "make-fragments", value)
            _check(answer, record.path)

    async def check_made(
        self, record: EntityRecord, store_uuids: Sequence[bytes]
    ) -> None:
        stored = stored_entity(record)
        value: dict[str, object] = {
            "generation": stored.generation,
            "definition": stored.definition,
        }
        for address in self._serving(store_uuids, record.path):
            answer = await self._ask(address, "check-fragments", value)
            _check(answer, record.path)

    def _serving(self, store_uuids: Sequence[bytes], path: str) -> list[str]:
        """The addresses of the brokers that serve these stores. Raises
        FragmentUnavailable."""
        addresses = {self._directory.address_of(uuid) for uuid in store_uuids}
        if None in addresses:
            raise FragmentUnavailable.none_left(path)
        return sorted(filter(None, addresses))

    async def tell(
        self, entities: Sequence[Entity], *, with_links: bool = False
    ) -> bool:
        every = self._addresses() if with_links else set()
        asked = {entity: every | self._owners_elsewhere(entity) for entity in entities}
        addresses = sorted(set(chain.from_iterable(asked.values())))
        asking = (self._about(one, asked) for one in addresses)
        answers = await asyncio.gather(*asking, return_exceptions=True)
        learned: dict[str, list[dict[str, Any]]] = {}
        for answer in answers:
            if not isinstance(answer, BaseException):
                for about in answer:
                    learned.setdefault(about["generation"], []).append(about)
        for entity in entities:
            _learn(entity, learned.get(entity.record.generation.hex(), []))
        return all(not isinstance(answer, BaseException) for answer in answers)

    def _addresses(self) -> set[str]:
        return {one.address for one in self._directory.others() if one.address}

    def _owners_elsewhere(self, entity: Entity) -> set[str]:
        """The addresses of other brokers that have fragments of it."""
        homes = [home for home in entity.homes() if not home.is_serving]
        found = {self._directory.address_of(home.store_uuid) for home in homes}
        return {address for address in found if address is not None}

    async def _about(
        self, address: str, asked_of: Mapping[Entity, set[str]]
    ) -> list[dict[str, Any]]:
        """What one broker says of those of the entities that it is asked of."""
        paths = [entity.path for entity, some in asked_of.items() if address in some]
        asked = paths if len(paths) <= _NAMED else []
        value: dict[str, object] = {"paths": json.dumps(asked)}
        answer = await self._ask(address, "about-entities", value, _COUNT_SECONDS)
        _check(answer, "")
        found: list[dict[str, Any]] = _result(answer)
        return found

    async def change_rule(
        self, store_uuid: bytes, operation: str, path: str, rule: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        address = self._directory.address_of(store_uuid)
        if address is None:
            raise FragmentUnavailable.none_left(path)
        value: dict[str, object] = {"path": path, "rule": json.dumps(rule)}
        answer = await self._ask(address, operation, value)
        _check(answer, path)
        kept: Mapping[str, Any] = _result(answer)
        return kept

    async def follow(self) -> None:
        waiting = (self._followed_by(address) for address in sorted(self._addresses()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FOLLOW_SECONDS):
                await asyncio.gather(*waiting)

    async def _followed_by(self, address: str) -> None:
        """Wait until this broker knows the change, or has gone. A topic whose owner has
        not heard of a subscription would take messages, and drop them."""
        while address in self._addresses():
            try:
                _check(await self._ask(address, "follow", {}), "")
                return
            except ServiceBusError as error:
                if isinstance(error.__cause__, ConnectionRefusedError):
                    # It has ended, and reads all of the catalog when it starts again.
                    return
                await asyncio.sleep(_ASK_AGAIN_SECONDS)

    async def _ask(
        self,
        address: str,
        operation: str,
        value: dict[str, object],
        timeout_seconds: float = 30.0,
    ) -> Message:
        message = Message(
            application_properties={"operation": f"twinbus:{operation}"},
            body=AmqpValue(value),
        )
        return await self._peers.request(address, _NODE, message, timeout_seconds)


def _check(answer: Message, path: str) -> None:
    """Raises the error of the other broker."""
    properties: dict[Any, Any] = answer.application_properties or {}
    if properties.get("statusCode") != 200:
        condition = str(properties.get("errorCondition"))
        text = str(properties.get("statusDescription"))
        raise from_condition(condition, text, entity_path=path)


def _result(answer: Message) -> Any:
    body = answer.body
    assert isinstance(body, AmqpValue) and isinstance(body.value, dict)
    return json.loads(str(body.value["result"]))


def _learn(entity: Entity, told: Sequence[Mapping[str, Any]]) -> None:
    """What all brokers that have fragments of it have told."""
    entity.learn_elsewhere(
        (
            FragmentRecord(**{**record, "generation": entity.record.generation})
            for about in told
            for record in about["records"]
        ),
        # Brokers of an older version do not tell.
        (ShownLease(**lease) for about in told for lease in about.get("leases", ())),
        max((about.get("used_at", 0) for about in told), default=0),
    )
    for about in told:
        if isinstance(entity, Subscription) and about["rules"] is not None:
            entity.learn_rules(about["rules"])
