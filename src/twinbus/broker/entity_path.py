"""Entity paths: how a client names what it wants.

    orders                      a queue
    orders/$DeadLetterQueue     its dead-letter queue
    orders/$management          the management node of either

Comparison ignores case, as the service's does; the path is shown as it was created.
Names of later floors (subscriptions, transfer queues) get their branch here.
"""

import re
from dataclasses import dataclass
from typing import Final

from twinbus.errors import ArgumentError
from twinbus.limits import ENTITY_PATH_CHARACTERS

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9._-])?")
_DEAD_LETTER: Final = "/$deadletterqueue"
_MANAGEMENT: Final = "$management"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPath:
    """An address taken apart. `entity` is as the client wrote it."""

    entity: str
    is_dead_letter_queue: bool = False
    is_management: bool = False

    @property
    def key(self) -> str:
        """What entities are compared by."""
        return self.entity.lower()

    @property
    def text(self) -> str:
        """The path of the queue or sub-queue, for error texts."""
        suffix = "/$DeadLetterQueue" if self.is_dead_letter_queue else ""
        return self.entity + suffix


def parse_entity_path(path: str) -> EntityPath:
    """Take a normalised address apart; says nothing about what exists."""
    is_management = path.lower() == _MANAGEMENT or path.lower().endswith(
        "/" + _MANAGEMENT
    )
    if is_management:
        path = path[: -len(_MANAGEMENT)].rstrip("/")
    is_dead_letter_queue = path.lower().endswith(_DEAD_LETTER)
    if is_dead_letter_queue:
        path = path[: -len(_DEAD_LETTER)]
    return EntityPath(
        entity=path,
        is_dead_letter_queue=is_dead_letter_queue,
        is_management=is_management,
    )


def check_entity_name(path: str) -> None:
    """Raises ArgumentError if a queue or topic can't be called that."""
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
