"""A queue: what is sent to it is received from it."""

from twinbus.broker.descriptions.forward_path import forward_path
from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.broker.fragment import DEAD_LETTER, MAIN
from twinbus.server.entity import Entity
from twinbus.server.owner import StoreOwner
from twinbus.store.catalog import EntityRecord


class Queue(Entity):
    """One queue of the namespace."""

    __slots__ = ()

    description: QueueDescription

    def __init__(
        self,
        record: EntityRecord,
        description: QueueDescription,
        owner: StoreOwner,
        now: int,
    ) -> None:
        super().__init__(record, description, owner, now)

    def check_may_send(self) -> None:
        if not self.description.may_send():
            raise self._disabled("sending")

    def check_may_receive(self, sub_queue: int = MAIN) -> None:
        if not self.description.may_receive():
            raise self._disabled("receiving")
        if target := self.forward_target(sub_queue):
            raise self._forwards(target)

    def forward_target(self, sub_queue: int) -> str:
        """The path that messages of a sub-queue are forwarded to, if any. Sessions
        are not forwarded: the service takes such a description, and so do we."""
        if sub_queue == MAIN and not self.description.requires_session:
            return forward_path(self.description.forward_to)
        if sub_queue == DEAD_LETTER:
            return forward_path(self.description.forward_dead_lettered_messages_to)
        return ""
