"""A queue, a subscription or a sub-queue of one, as bulk requests see it."""

from collections.abc import Iterable, Mapping

from twinbus.broker import reader_lease
from twinbus.broker.changes import ReaderLease
from twinbus.broker.entity_path import parse_entity_path
from twinbus.broker.fragment import Fragment
from twinbus.broker.row_id import SEQUENCE_MASK, sequence_of
from twinbus.entities.message_source import MessageSource
from twinbus.entities.namespace import Namespace
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    MessagingEntityNotFound,
    NotAllowed,
    ReaderLeaseLost,
)
from twinbus.owner.store_owner import StoreOwner, owner_of

ONLY_FRAGMENT = 0
"""Until entities are partitioned."""


class Source:
    """What a request names."""

    def __init__(self, entity: MessageSource, sub_queue: int) -> None:
        self.entity = entity
        self.sub_queue = sub_queue
        self.fragment: Fragment = entity.fragment(sub_queue)
        entity.used_at = self.now()

    @property
    def path(self) -> str:
        return self.fragment.settings.path

    @property
    def owner(self) -> StoreOwner:
        return owner_of(self.fragment)

    @property
    def generation(self) -> str:
        return self.fragment.generation.hex()

    def now(self) -> int:
        return self.owner.clock.now()

    async def settle_down(self) -> None:
        """Let all that was asked for so far become durable, so that what is read from
        the store is what is true. Raises MessagingEntityNotFound."""
        if not self.owner.is_idle():
            await self.owner.durable()
        self.fragment.check_exists()

    def check_generation(self, generation: str) -> None:
        """Raises MessagingEntityNotFound."""
        if generation != self.generation:
            raise MessagingEntityNotFound(
                f"'{self.path}' was deleted and made again since it was last looked "
                "at: its messages of then are gone. Begin with it anew.",
                entity_path=self.path,
            )

    def check_may_read(self) -> None:
        """Raises EntityDisabled, NotAllowed."""
        self.entity.check_may_receive(self.sub_queue)

    def check_may_dead_letter(self) -> None:
        """Raises NotAllowed: a dead letter would come back at the end of its queue, and
        its reader would never be done with it."""
        if self.fragment.settings.is_dead_letter_queue:
            raise NotAllowed(
                f"'{self.path}' is a dead-letter queue: what is in it cannot be "
                "dead-lettered again. Complete it, or defer it.",
                entity_path=self.path,
            )

    def lease(self, reader: str, epoch: str) -> ReaderLease:
        """Raises ReaderLeaseLost."""
        if not epoch.isascii() or not epoch.isdigit() or len(epoch) > 18:
            raise ReaderLeaseLost(entity_path=self.path)
        return reader_lease.held(self.fragment, reader, int(epoch), self.now())

    def number_in(self, positions: Mapping[int, int], what: str) -> int | None:
        """The sequence number that is meant for the one fragment. Raises
        ArgumentError, ArgumentOutOfRange."""
        unknown = [index for index in positions if index != ONLY_FRAGMENT]
        if unknown:
            raise ArgumentError(
                f"'{what}' names fragment {unknown[0]} of '{self.path}', which has "
                "fragment 0 only.",
                entity_path=self.path,
            )
        if ONLY_FRAGMENT not in positions:
            return None
        return self.local(positions[ONLY_FRAGMENT], what)

    def local(self, number: int, what: str) -> int:
        """A number that a client sees as the fragment counts. Raises
        ArgumentOutOfRange."""
        base = self.fragment.visible_base
        if not base <= number <= base + SEQUENCE_MASK:
            raise ArgumentOutOfRange(
                f"'{what}' is {number}, which is no sequence number of '{self.path}'.",
                entity_path=self.path,
            )
        return sequence_of(number)

    def visible(self, sequence: int) -> int:
        return self.fragment.visible_base + sequence


def find_source(namespace: Namespace, path: str) -> Source:
    """Raises MessagingEntityNotFound, NotAllowed."""
    parsed = parse_entity_path(path.strip("/"))
    if parsed.is_management:
        raise MessagingEntityNotFound(entity_path=path)
    entity = namespace.entity(parsed.entity)
    if not isinstance(entity, MessageSource):
        raise NotAllowed(
            f"'{entity.path}' is a topic: read one of its subscriptions.",
            entity_path=entity.path,
        )
    return Source(entity, parsed.sub_queue)


def check_distinct(sources: Iterable[Source]) -> None:
    """Raises ArgumentError: of two answers for one entity only one could hold."""
    seen: set[Fragment] = set()
    for source in sources:
        if source.fragment in seen:
            raise ArgumentError(
                f"'entities' names '{source.path}' more than once.",
                entity_path=source.path,
            )
        seen.add(source.fragment)
