"""Opens and checks entities for bulk requests that read."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from twinbus.auth.claims import Claim
from twinbus.broker import reader_lease
from twinbus.broker.changes import ReaderLease
from twinbus.broker.entity_path import EntityPath
from twinbus.broker.row_id import SEQUENCE_BITS
from twinbus.entities.entity import Entity
from twinbus.entities.message_source import MessageSource
from twinbus.entities.namespace import Namespace
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    MessagingEntityNotFound,
    NotAllowed,
    ReaderLeaseLost,
)
from twinbus.operations.caller import Caller
from twinbus.operations.entity_handle import EntityHandle, find_entity
from twinbus.operations.fragment_handle import FragmentHandle


class Fragmented(Protocol):
    """An entity or a sub-queue, with its fragments here or elsewhere."""

    @property
    def entity(self) -> Entity: ...

    @property
    def sub_queue(self) -> int: ...

    @property
    def path(self) -> str: ...

    @property
    def fragment_count(self) -> int: ...


def open_source(namespace: Namespace, path: str, caller: Caller) -> EntityHandle:
    """A queue, a subscription or a sub-queue of one. Raises MessagingEntityNotFound,
    NotAllowed, UnauthorizedAccess."""
    entity, parsed = find_source(namespace, path, caller)
    return EntityHandle(namespace, entity, parsed, caller)


def find_source(
    namespace: Namespace, path: str, caller: Caller
) -> tuple[Entity, EntityPath]:
    """The entity and the path, whoever has its fragments. Raises as `open_source`."""
    entity, parsed = find_entity(namespace, path, caller, Claim.LISTEN)
    if not isinstance(entity, MessageSource):
        raise NotAllowed(
            f"'{entity.path}' is a topic: read one of its subscriptions.",
            entity_path=entity.path,
        )
    return entity, parsed


def generation_of(handle: Fragmented) -> str:
    return handle.entity.record.generation.hex()


def check_generation(handle: Fragmented, generation: str) -> None:
    """Raises MessagingEntityNotFound."""
    if generation != generation_of(handle):
        raise MessagingEntityNotFound(
            f"'{handle.path}' was deleted and made again since its generation was "
            "read: its earlier messages are gone. Start from its beginning.",
            entity_path=handle.path,
        )


def held_lease(part: FragmentHandle, reader: str, epoch: str) -> ReaderLease:
    """Raises ReaderLeaseLost."""
    if not epoch.isascii() or not epoch.isdigit() or len(epoch) > 18:
        raise ReaderLeaseLost(entity_path=part.path)
    return reader_lease.held(part.fragment, reader, int(epoch), part.now())


def check_index(handle: Fragmented, index: int, what: str) -> None:
    """Raises ArgumentError if the entity has no fragment of that index."""
    if 0 <= index < handle.fragment_count:
        return
    last = handle.fragment_count - 1
    known = f"fragments 0 to {last}" if last else "fragment 0 only"
    raise ArgumentError(
        f"'{what}' names fragment {index} of '{handle.path}', which has {known}.",
        entity_path=handle.path,
    )


def index_of(handle: Fragmented, number: int, what: str) -> int:
    """The index of the fragment that may have the message of that number. Raises
    ArgumentOutOfRange."""
    index = number >> SEQUENCE_BITS
    if 0 <= index < handle.fragment_count:
        return index
    raise ArgumentOutOfRange(
        f"'{what}' is {number}, which is not a sequence number of '{handle.path}'.",
        entity_path=handle.path,
    )


def numbers_in(
    handle: EntityHandle, positions: Mapping[int, int], what: str
) -> dict[int, int]:
    """The fragments' own sequence numbers of positions, by index. Raises ArgumentError,
    ArgumentOutOfRange, FragmentUnavailable."""
    for index in positions:
        check_index(handle, index, what)
    return {
        index: handle.part(index).local(position, what)
        for index, position in positions.items()
    }


def check_distinct(handles: Iterable[Fragmented]) -> None:
    """Raises ArgumentError if an entity is named twice: its answers could conflict."""
    seen: set[tuple[bytes, int]] = set()
    for handle in handles:
        key = (handle.entity.record.generation, handle.sub_queue)
        if key in seen:
            raise ArgumentError(
                f"'entities' names '{handle.path}' more than once.",
                entity_path=handle.path,
            )
        seen.add(key)
