"""The path of an entity, taken apart as the SDK wants it, and as columns show it."""

from dataclasses import dataclass
from typing import Final

_SUBSCRIPTIONS: Final = "/subscriptions/"
_SUB_QUEUES: Final = (
    ("/$transfer/$deadletterqueue", "transferdeadletter"),
    ("/$deadletterqueue", "deadletter"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkEntityPath:
    """A queue or a subscription, or a sub-queue of one."""

    # The queue or the topic.
    entity: str
    subscription: str | None
    # As the SDK calls it.
    sub_queue: str | None
    # What follows the entity in an address; empty without a sub-queue.
    suffix: str

    @property
    def parent(self) -> str:
        """Without the sub-queue: the column `entity`."""
        if self.subscription is None:
            return self.entity
        return f"{self.entity}/subscriptions/{self.subscription}"

    @property
    def address_parts(self) -> tuple[str, str | None]:
        """Entity and subscription, the sub-queue being part of the latter name."""
        if self.subscription is None:
            return f"{self.entity}{self.suffix}", None
        return self.entity, f"{self.subscription}{self.suffix}"


def entity_path(path: str) -> SdkEntityPath:
    path = path.strip("/")
    sub_queue, suffix = None, ""
    for ending, name in _SUB_QUEUES:
        if path.lower().endswith(ending):
            suffix, sub_queue = path[-len(ending) :], name
            path = path[: -len(ending)]
            break
    at = path.lower().find(_SUBSCRIPTIONS)
    if at < 0:
        return SdkEntityPath(
            entity=path, subscription=None, sub_queue=sub_queue, suffix=suffix
        )
    return SdkEntityPath(
        entity=path[:at],
        subscription=path[at + len(_SUBSCRIPTIONS) :],
        sub_queue=sub_queue,
        suffix=suffix,
    )
