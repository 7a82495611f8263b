"""Entity paths: the addresses of entities, sub-queues and management nodes.

    orders                                  a queue or a topic
    orders/Subscriptions/billing            a subscription of a topic
    orders/$DeadLetterQueue                 a sub-queue of a queue or subscription
    orders/$Transfer/$DeadLetterQueue       another one
    orders/$management                      the management node of any of these

Comparison ignores case, as in the service. A path is shown as it was created.
"""

import re
from dataclasses import dataclass
from typing import Final

from twinbus.broker.fragment import DEAD_LETTER, MAIN, TRANSFER_DEAD_LETTER
from twinbus.errors import ArgumentError
from twinbus.limits import ENTITY_PATH_CHARACTERS, SUBSCRIPTION_NAME_CHARACTERS

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9._-])?")
_SUBSCRIPTION: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9._-])?")
_MANAGEMENT: Final = "$management"
_SUBSCRIPTIONS: Final = "/subscriptions/"

# The longer suffix first, because it ends with the shorter one.
_SUB_QUEUES: Final = (
    (TRANSFER_DEAD_LETTER, "/$Transfer/$DeadLetterQueue"),
    (DEAD_LETTER, "/$DeadLetterQueue"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPath:
    """A parsed address. `entity` is as the client wrote it."""

    entity: str
    # MAIN, or the sub-queue of the entity.
    sub_queue: int = MAIN
    is_management: bool = False

    @property
    def key(self) -> str:
        """The form in which paths are compared."""
        return self.entity.lower()

    @property
    def text(self) -> str:
        """The path of the entity or sub-queue, for error texts."""
        return self.entity + dict(_SUB_QUEUES).get(self.sub_queue, "")


def parse_entity_path(path: str) -> EntityPath:
    """Parse a normalised address. It does not check whether the entity exists."""
    lower = path.lower()
    is_management = lower == _MANAGEMENT or lower.endswith("/" + _MANAGEMENT)
    if is_management:
        path = path[: -len(_MANAGEMENT)].rstrip("/")
    sub_queue = MAIN
    for number, suffix in _SUB_QUEUES:
        if path.lower().endswith(suffix.lower()):
            path = path[: -len(suffix)]
            sub_queue = number
            break
    return EntityPath(entity=path, sub_queue=sub_queue, is_management=is_management)


def subscription_path(topic_path: str, name: str) -> str:
    return f"{topic_path}/Subscriptions/{name}"


def split_subscription_path(path: str) -> tuple[str, str]:
    """Topic and name of a subscription's path."""
    at = path.lower().rindex(_SUBSCRIPTIONS)
    return path[:at], path[at + len(_SUBSCRIPTIONS) :]


def check_entity_name(path: str) -> None:
    """Raises ArgumentError if the name is not valid for a queue or topic."""
    if len(path) > ENTITY_PATH_CHARACTERS:
        raise ArgumentError(
            f"The entity path has {len(path)} characters; at most "
            f"{ENTITY_PATH_CHARACTERS} are allowed.",
            entity_path=path,
        )
    if not _NAME.fullmatch(path) or "//" in path:
        raise ArgumentError(
            f"'{path}' is not a valid entity path. Use letters, digits, '.', '-', "
            "'_' and '/' inside; begin with a letter or digit.",
            entity_path=path,
        )
    if _SUBSCRIPTIONS in f"/{path.lower()}/":
        raise ArgumentError(
            f"'{path}' is not a valid entity path: 'Subscriptions' is reserved, it "
            "separates a topic from its subscriptions.",
            entity_path=path,
        )


def check_subscription_name(name: str) -> None:
    """Raises ArgumentError if the name is not valid for a subscription."""
    if len(name) > SUBSCRIPTION_NAME_CHARACTERS:
        raise ArgumentError(
            f"The subscription name has {len(name)} characters; at most "
            f"{SUBSCRIPTION_NAME_CHARACTERS} are allowed.",
            entity_path=name,
        )
    if not _SUBSCRIPTION.fullmatch(name):
        raise ArgumentError(
            f"'{name}' is not a valid subscription name. Use letters, digits, '.', "
            "'-' and '_'; begin with a letter or digit.",
            entity_path=name,
        )
