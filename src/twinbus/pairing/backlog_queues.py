"""Finds or makes the backlog queues of a pair on its secondary namespace (P4).

An existing queue is used as it is, whatever its settings. Surplus queues are left
alone; nothing is deleted here.
"""

import logging
from typing import Any, Final, Protocol

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError

from twinbus.pairing.errors import PairingError
from twinbus.pairing.primary_name import primary_name as primary_name

_log = logging.getLogger(__name__)

_LONGEST: Final = "P10675199DT2H48M5.4775807S"
"""TimeSpan.MaxValue, which Service Bus takes for 'never'."""

SETTINGS: Final[dict[str, Any]] = {
    "max_size_in_megabytes": 5120,
    "max_delivery_count": 2_147_483_647,
    "default_message_time_to_live": _LONGEST,
    "auto_delete_on_idle": _LONGEST,
    "lock_duration": "PT1M",
    "dead_lettering_on_message_expiration": True,
    "enable_batched_operations": True,
}
"""P4: a message may wait as long as the primary is away, and a syphon may take it as
often as it has to."""


_UNFIT: Final = {
    "requires_duplicate_detection": "messages with the same id are dropped there",
    "requires_session": "it takes no diverted message",
    "forward_to": "its messages go elsewhere",
}
"""Settings with which an existing queue loses messages, or takes none."""


class QueueAdministration(Protocol):
    """The methods that we call of the secondary's administration client."""

    async def get_queue(self, path: str) -> Any: ...

    async def create_queue(self, path: str, **settings: Any) -> Any: ...


def backlog_queue_path(primary_name: str, index: int) -> str:
    return f"{primary_name}/x-servicebus-transfer/{index}"


async def find_or_make(
    administration: QueueAdministration, primary_name: str, count: int
) -> tuple[str, ...]:
    """Paths of the backlog queues. Raises the errors of the administration client, and
    PairingError if another entity has such a path."""
    paths = tuple(backlog_queue_path(primary_name, index) for index in range(count))
    for path in paths:
        await _find_or_make(administration, path)
    return paths


async def _find_or_make(administration: QueueAdministration, path: str) -> None:
    queue = await _found(administration, path)
    if queue is not None:
        _look_at(path, queue)
        return
    try:
        await administration.create_queue(path, **SETTINGS)
    except ResourceExistsError:
        # Another process was faster, or it is not a queue.
        if await _found(administration, path) is None:
            raise PairingError(
                f"'{path}' on the secondary is no queue: a topic, or something else, "
                "has the path of a backlog queue. Delete it, or pair with another "
                "primary_name."
            ) from None


async def _found(administration: QueueAdministration, path: str) -> Any:
    """None if there is no queue of this path."""
    try:
        return await administration.get_queue(path)
    except (ResourceNotFoundError, AttributeError):
        # For a topic: the SDK finds no description of a queue in the answer.
        return None


def _look_at(path: str, properties: Any) -> None:
    """Warn of an unsuitable queue now, and not in an outage."""
    for setting, why in _UNFIT.items():
        if getattr(properties, setting):
            _log.warning("backlog queue '%s' has %s: %s", path, setting, why)
