"""Asks other brokers to make fragments of entities, and to follow the catalog."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.broker.changes import FragmentRecord
from twinbus.cluster.broker_directory import BrokerDirectory
from twinbus.entities.entity import Entity
from twinbus.errors import FragmentUnavailable, from_condition
from twinbus.peers.peers import Peers
from twinbus.rules.rule import Rule
from twinbus.store.catalog import EntityRecord, stored_entity

_NODE: Final = "$management"

_FOLLOW_SECONDS: Final = 2.0
"""A broker that takes longer follows by itself, within a second."""

_COUNT_SECONDS: Final = 1.0
"""How long others may take to tell what is in their fragments."""


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
        addresses = {self._directory.address_of(uuid) for uuid in store_uuids}
        if None in addresses:
            raise FragmentUnavailable.none_left(record.path)
        stored = stored_entity(record)
        value: dict[str, object] = {
            "generation": stored.generation,
            "definition": stored.definition,
            "rules": json.dumps([rule.to_json() for rule in rules]),
        }
        for address in addresses:
            assert address is not None
            answer = await self._ask(address, "make-fragments", value)
            properties = answer.application_properties or {}
            if properties.get("statusCode") != 200:
                condition = str(properties.get("errorCondition"))
                text = str(properties.get("statusDescription"))
                raise from_condition(condition, text, entity_path=record.path)

    async def ask_for_counts(self, entity: Entity) -> None:
        addresses = {
            self._directory.address_of(home.store_uuid)
            for home in entity.homes()
            if not home.is_serving
        }
        answers = await asyncio.gather(
            *(
                self._ask(one, "fragment-counts", {"path": entity.path}, _COUNT_SECONDS)
                for one in addresses
                if one is not None
            ),
            return_exceptions=True,
        )
        entity.learn_elsewhere(
            FragmentRecord(**{**one, "generation": entity.record.generation})
            for answer in answers
            if isinstance(answer, Message)
            for one in _result(answer)
        )

    async def follow(self) -> None:
        asking = [
            self._ask(broker.address, "follow", {}, _FOLLOW_SECONDS)
            for broker in self._directory.others()
            if broker.address
        ]
        await asyncio.gather(*asking, return_exceptions=True)

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


def _result(answer: Message) -> list[dict[str, Any]]:
    """What a broker says of its fragments; nothing if it refuses."""
    body = answer.body
    value = body.value if isinstance(body, AmqpValue) else None
    if not isinstance(value, dict) or "result" not in value:
        return []
    found: list[dict[str, Any]] = json.loads(str(value["result"]))
    return found
