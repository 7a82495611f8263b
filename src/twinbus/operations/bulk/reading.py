"""Opens and checks entities for bulk requests that read."""

from collections.abc import Iterable, Mapping

from twinbus.auth.claims import Claim
from twinbus.broker import reader_lease
from twinbus.broker.changes import ReaderLease
from twinbus.broker.fragment import Fragment
from twinbus.entities.message_source import MessageSource
from twinbus.entities.namespace import Namespace
from twinbus.errors import (
    ArgumentError,
    MessagingEntityNotFound,
    NotAllowed,
    ReaderLeaseLost,
)
from twinbus.operations.caller import Caller
from twinbus.operations.entity_handle import EntityHandle, open_entity

ONLY_FRAGMENT = 0
"""Index of the fragment: entities have one, because they are not partitioned yet."""


def open_source(namespace: Namespace, path: str, caller: Caller) -> EntityHandle:
    """A queue, a subscription or a sub-queue of one. Raises MessagingEntityNotFound,
    NotAllowed, UnauthorizedAccess."""
    handle = open_entity(namespace, path, caller, Claim.LISTEN)
    if not isinstance(handle.entity, MessageSource):
        raise NotAllowed(
            f"'{handle.entity.path}' is a topic: read one of its subscriptions.",
            entity_path=handle.entity.path,
        )
    return handle


def generation_of(handle: EntityHandle) -> str:
    return handle.fragment.generation.hex()


def check_generation(handle: EntityHandle, generation: str) -> None:
    """Raises MessagingEntityNotFound."""
    if generation != generation_of(handle):
        raise MessagingEntityNotFound(
            f"'{handle.path}' was deleted and made again since its generation was "
            "read: its earlier messages are gone. Start from its beginning.",
            entity_path=handle.path,
        )


def held_lease(handle: EntityHandle, reader: str, epoch: str) -> ReaderLease:
    """Raises ReaderLeaseLost."""
    if not epoch.isascii() or not epoch.isdigit() or len(epoch) > 18:
        raise ReaderLeaseLost(entity_path=handle.path)
    return reader_lease.held(handle.fragment, reader, int(epoch), handle.now())


def number_in(
    handle: EntityHandle, positions: Mapping[int, int], what: str
) -> int | None:
    """The fragment's own sequence number of its position. Raises ArgumentError,
    ArgumentOutOfRange."""
    unknown = [index for index in positions if index != ONLY_FRAGMENT]
    if unknown:
        raise ArgumentError(
            f"'{what}' names fragment {unknown[0]} of '{handle.path}', which has "
            "fragment 0 only.",
            entity_path=handle.path,
        )
    if ONLY_FRAGMENT not in positions:
        return None
    return handle.local(positions[ONLY_FRAGMENT], what)


def check_distinct(handles: Iterable[EntityHandle]) -> None:
    """Raises ArgumentError if an entity is named twice: its answers could conflict."""
    seen: set[Fragment] = set()
    for handle in handles:
        if handle.fragment in seen:
            raise ArgumentError(
                f"'entities' names '{handle.path}' more than once.",
                entity_path=handle.path,
            )
        seen.add(handle.fragment)
