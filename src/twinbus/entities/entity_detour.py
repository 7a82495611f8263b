"""The detour of one entity: which of its messages are kept while a store is away.

    conventional entity                    kept, if `transfer_conventional` is on
    partitioned, with a key                kept, if `transfer_keyed` is on
    partitioned, with a send id alone      kept: any other fragment could store it twice
    a ping                                 never: it asks whether the store can store

If messages of the same fragment are kept already, later ones follow them in any case.
"""

from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment_address import FragmentAddress
from twinbus.broker.message import Message
from twinbus.encoding.layout import PING
from twinbus.entities.entity import Entity
from twinbus.errors import EntityDisabled, FragmentUnavailable
from twinbus.fragments.partition_key import key_of
from twinbus.links.detour import StoreDetour
from twinbus.links.sending import check_message
from twinbus.outbox.transfer_log import TransferLog


class EntityDetour(StoreDetour):
    """Takes what is sent to one entity."""

    def __init__(self, entity: Entity, transfer_log: TransferLog) -> None:
        super().__init__()
        self._entity = entity
        self._log = transfer_log

    def send(
        self,
        messages: list[Message],
        listener: CommitListener | None,
        item: int,
        is_returned: bool = False,
    ) -> None:
        entity, settings = self._entity, self._entity.settings()
        index = self._index_of(messages)
        home = entity.home_of(index)
        generation = entity.record.generation
        if (generation, index) not in home.awaited:
            self._check_allowed(messages, index)
        if not settings.takes_messages:
            raise EntityDisabled(entity_path=entity.path)
        for message in messages:
            check_message(settings, message)
            if message.layout & PING != 0:
                raise FragmentUnavailable.numbered(index, entity.path)
        is_elsewhere = self._log.elsewhere.serves(home.store_uuid)
        if is_elsewhere and self._is_identified_only(messages):
            self._log.send_through(
                FragmentAddress(home.store_uuid, generation, index),
                messages,
                entity_path=entity.path,
                listener=listener,
                item=item,
            )
            return
        self._log.send(
            FragmentAddress(home.store_uuid, generation, index),
            home,
            messages,
            entity_path=entity.path,
            limit_bytes=settings.max_size_bytes,
            listener=listener,
            item=item,
            is_returned=is_returned,
        )

    def _index_of(self, messages: list[Message]) -> int:
        """The fragment of these messages. Raises NotAllowed, FragmentUnavailable."""
        if not self._entity.is_partitioned:
            return 0
        routing = self._entity.routing()
        key = routing.key_of(messages)
        if key is None:
            raise FragmentUnavailable.none_left(self._entity.path)
        return routing.index_of(key)

    def _is_identified_only(self, messages: list[Message]) -> bool:
        """They go to a certain fragment because of their send ids, not of a key."""
        detects = self._entity.settings().duplicate_window_ms != 0
        is_keyed = key_of(messages[0], detects) is not None
        return self._entity.is_partitioned and not is_keyed

    def _check_allowed(self, messages: list[Message], index: int) -> None:
        """Raises FragmentUnavailable."""
        entity, settings = self._entity, self._log.settings
        if not entity.is_partitioned:
            is_kept = settings.conventional
        else:
            is_kept = settings.keyed or self._is_identified_only(messages)
        if not is_kept:
            raise FragmentUnavailable.numbered(index, entity.path)
