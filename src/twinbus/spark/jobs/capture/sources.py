"""What a capture reads: entities of a namespace, and the subscriptions of its own.

A topic is captured through a subscription that the capture makes and owns. Its user
metadata names the lake, so that two captures never share one by accident, and nobody's
own subscription is emptied. What is captured of it is taken away, because nobody else
reads it. Queues and subscriptions of others are browsed, unless they are to be
consumed.
"""

import asyncio
import json
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from twinbus.amqp.sasl import plain
from twinbus.client.connection import connect
from twinbus.client.connection_string import parse_connection_string
from twinbus.client.errors import ClientError
from twinbus.client.management import ask_namespace
from twinbus.errors import (
    EntityAlreadyExists,
    MessagingEntityNotFound,
    ServiceBusError,
    UnauthorizedAccess,
)
from twinbus.spark.bulk.client import BulkClient, EntityBounds
from twinbus.spark.jobs.capture.options import CaptureOptions
from twinbus.spark.jobs.job_errors import (
    JobRefused,
    NamespaceAway,
    NamespaceRefuses,
)

_SUB_QUEUES: Final = {
    "/$deadletterqueue": "deadletter",
    "/$transfer/$deadletterqueue": "transferdeadletter",
}
_PATIENCE_SECONDS: Final = 30.0
_METADATA: Final = "twinbus capture into the lake "


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedEntity:
    """An entity of the lake, and what is read for it."""

    # In the lake: a topic, or the same as the source.
    entity: str
    # The path as the bus spells it.
    source: str
    # Whether it is emptied by the capture.
    is_consumed: bool


ROW_KEY: Final = "concat(lower(entity), '|', coalesce(subqueue, ''))"
"""Of a row: which source it is from."""


def row_key(source: str) -> str:
    """The same of a source."""
    path = source.lower()
    for ending in sorted(_SUB_QUEUES, key=len, reverse=True):
        if path.endswith(ending):
            return f"{path.removesuffix(ending)}|{_SUB_QUEUES[ending]}"
    return f"{path}|"


def captured_entities(
    client: BulkClient, options: CaptureOptions, lake: str
) -> list[CapturedEntity]:
    """All that is to be read now; makes subscriptions of topics. `lake` is its id.
    Raises JobError, BulkError."""
    if not options.entities and options.pattern is None:
        raise JobRefused("Nothing is to be captured: name entities, or a pattern.")
    found, missing = client.runtime(options.entities, options.pattern)
    consumed = options.consumes
    entities = [_entity(one, one.path, consumed) for one in found]
    if missing:
        topics = _Topics(client, options, lake)
        entities += [topics.subscribed(path) for path in missing]
    unique = {one.source.lower(): one for one in entities}
    return sorted(unique.values(), key=lambda one: one.source)


def _entity(found: EntityBounds, entity: str, consumed: bool) -> CapturedEntity:
    return CapturedEntity(entity=entity, source=found.path, is_consumed=consumed)


class _Topics:
    """Topics, and the subscriptions that are made for them."""

    def __init__(self, client: BulkClient, options: CaptureOptions, lake: str) -> None:
        self._client = client
        self._options = options
        self._lake = lake

    def subscribed(self, path: str) -> CapturedEntity:
        """The subscription of ours to a topic, made if there is none."""
        topic = self._asked("get-entity", path=path)
        if topic is None or topic.get("kind") != "topic":
            raise JobRefused(
                f"'{path}' does not exist in {self._client.address}. Make it, or name "
                "another: 'twinbus entities list' shows all."
            )
        name = f"{topic['path']}/Subscriptions/{self._options.subscription}"
        made = self._asked("get-entity", path=name) or self._made(name)
        owner = made["properties"].get("user_metadata", "")
        if owner != _METADATA + self._lake:
            raise JobRefused(
                f"'{name}' exists, and is not of this lake"
                f"{f' ({owner})' if owner else ''}. Name another by --subscription, "
                "or remove it: 'twinbus entities delete'."
            )
        return CapturedEntity(
            entity=str(topic["path"]), source=str(made["path"]), is_consumed=True
        )

    def _made(self, name: str) -> dict[str, Any]:
        properties = json.dumps({"user_metadata": _METADATA + self._lake})
        made = self._asked("create-subscription", path=name, properties=properties)
        # Somebody may have made it since we looked.
        made = made or self._asked("get-entity", path=name)
        if made is None:
            raise JobRefused(f"'{name}' was removed while the capture began.")
        return made

    def _asked(self, operation: str, **arguments: str) -> dict[str, Any] | None:
        """The answer of the namespace; None if there is no such entity, or already."""
        try:
            # In a thread: a notebook has an event loop of its own.
            with ThreadPoolExecutor(1) as pool:
                answer = pool.submit(
                    asyncio.run, _ask(self._options, operation, arguments)
                ).result()
        except (MessagingEntityNotFound, EntityAlreadyExists):
            return None
        except UnauthorizedAccess:
            raise self._no_right() from None
        except ServiceBusError as error:
            raise JobRefused(f"{self._client.address}: {_first(error.text)}") from None
        except (ClientError, OSError, TimeoutError) as error:
            told = error.error if isinstance(error, ClientError) else None
            if told is not None and told.condition == UnauthorizedAccess.condition:
                raise self._no_right() from None
            why = str(error) or type(error).__name__
            text = f"{self._client.address} cannot be reached: {why}"
            raise NamespaceAway(text) from None
        return answer if isinstance(answer, dict) else {}

    def _no_right(self) -> NamespaceRefuses:
        return NamespaceRefuses(
            f"{self._client.address} refuses to make a subscription: to capture a "
            "topic, the key needs the Manage right. Or capture a subscription that "
            "exists: TOPIC/subscriptions/NAME."
        )


def _first(text: str) -> str:
    return text.partition(" TrackingId:")[0]


async def _ask(
    options: CaptureOptions, operation: str, arguments: Mapping[str, str]
) -> Any:
    text = options.connection().secret.reveal()
    server = parse_connection_string(text)
    if not server.key:
        raise JobRefused(
            "To capture a topic, the connection string must have a key with the "
            "Manage right, not a signature."
        )
    connection = await connect(
        server.host,
        server.port,
        ssl=ssl.create_default_context() if server.is_tls else None,
        sasl=plain(server.key_name, server.key),
        timeout_seconds=_PATIENCE_SECONDS,
    )
    async with connection:
        return await ask_namespace(
            connection, operation, arguments, timeout_seconds=_PATIENCE_SECONDS
        )


def foreign_entities(options: CaptureOptions) -> list[CapturedEntity]:
    """Of a namespace that is not twinbus: what is named, as it is. Raises
    JobRefused."""
    if options.pattern is not None or options.consumes:
        which = "--pattern" if options.pattern is not None else "--consume"
        raise JobRefused(
            f"{which} needs a twinbus namespace that is not strict. Name the queues "
            "and subscriptions, which are browsed."
        )
    if not options.entities:
        raise JobRefused("Nothing is to be captured: name entities.")
    paths = [path.strip("/") for path in options.entities]
    return [_named(path) for path in paths]


def _named(path: str) -> CapturedEntity:
    return CapturedEntity(entity=path, source=path, is_consumed=False)
