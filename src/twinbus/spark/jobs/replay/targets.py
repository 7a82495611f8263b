"""Where the messages of an entity of a lake are sent to."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from twinbus.spark.jobs.job_errors import JobRefused

_SUBSCRIPTION: Final = re.compile(r"/subscriptions/[^/]+$", re.IGNORECASE)
_SUB_QUEUE: Final = re.compile(
    r"(/\$transfer)?/\$deadletterqueue$", re.IGNORECASE | re.ASCII
)


def home_of(entity: str) -> str:
    """The queue or topic that one sends to, so that messages come to this entity: dead
    letters go back to their queue, messages of a subscription to its topic."""
    return _SUBSCRIPTION.sub("", _SUB_QUEUE.sub("", entity))


def targets_of(
    entities: Sequence[str], target: str | None, targets: Mapping[str, str]
) -> dict[str, str]:
    """By entity of the lake. Raises JobRefused."""
    if target is not None and targets:
        raise JobRefused(
            "Name one target for all messages, or one for each entity, not both."
        )
    given = {entity.lower(): path.strip("/") for entity, path in targets.items()}
    known = {entity.lower() for entity in entities}
    for entity in targets:
        if entity.lower() not in known:
            raise JobRefused(
                f"A target is named for '{entity}', of which nothing is replayed. The "
                f"selection has {', '.join(entities) or 'nothing'}."
            )
    for path in (target, *given.values()):
        if path is not None and (not path or home_of(path) != path):
            raise JobRefused(
                f"'{path}' cannot be sent to: name a queue or a topic as the target."
            )
    return {
        entity: target or given.get(entity.lower()) or home_of(entity)
        for entity in entities
    }
