"""The largest message of an entity, which clients always want to be told.

An entity that says nothing takes what the namespace takes. Clients send back what they
were told, and that must not turn the namespace's limit into one of the entity's own.
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
