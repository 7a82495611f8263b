"""The maximum message size of an entity, which clients always expect to read.

An entity without its own limit has that of the namespace. Clients send back what they
read; that must not make the namespace's limit one of the entity.
"""

from typing import Any, Final

from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.broker.descriptions.topic import TopicDescription
from twinbus.entities.namespace import Namespace

_NAME: Final = "max_message_size_in_kilobytes"


def written_message_size(
    description: QueueDescription | TopicDescription, namespace: Namespace
) -> int:
    return description.max_message_size_in_kilobytes or _of_namespace(namespace)


def read_message_size(properties: dict[str, Any], namespace: Namespace) -> None:
    if properties.get(_NAME) == _of_namespace(namespace):
        properties[_NAME] = 0


def _of_namespace(namespace: Namespace) -> int:
    return namespace.max_message_bytes // 1024
