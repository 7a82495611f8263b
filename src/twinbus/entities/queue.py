"""A queue: receivers get the messages that were sent to it."""

from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.broker.fragment_table import FragmentTable
from twinbus.entities.message_source import MessageSource
from twinbus.store.catalog import EntityRecord


class Queue(MessageSource):
    """One queue of the namespace."""

    __slots__ = ()

    description: QueueDescription

    def __init__(
        self,
        record: EntityRecord,
        description: QueueDescription,
        tables: tuple[FragmentTable, ...],
        now: int,
    ) -> None:
        super().__init__(record, description, tables, now)

    def check_may_send(self) -> None:
        if not self.description.may_send():
            raise self._disabled("sending")
