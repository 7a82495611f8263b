"""A message source: a queue or a subscription.

Its description says whether clients may receive now, or whether it forwards instead.
"""

from twinbus.broker.descriptions.forward_path import forward_path
from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.broker.descriptions.subscription import SubscriptionDescription
from twinbus.broker.fragment import DEAD_LETTER, MAIN
from twinbus.entities.entity import Entity


class MessageSource(Entity):
    """An entity that delivers messages to receivers or forwards them."""

    __slots__ = ()

    # Narrowed by each kind of source.
    description: QueueDescription | SubscriptionDescription

    def check_may_receive(self, sub_queue: int = MAIN) -> None:
        if not self.description.may_receive():
            raise self._disabled("receiving")
        if target := self.forward_target(sub_queue):
            raise self._forwards(target)

    def forward_target(self, sub_queue: int) -> str:
        """The path that messages of a sub-queue are forwarded to, or "". With
        sessions nothing is forwarded; as in the service, `forward_to` may be set."""
        if sub_queue == MAIN and not self.description.requires_session:
            return forward_path(self.description.forward_to)
        if sub_queue == DEAD_LETTER:
            return forward_path(self.description.forward_dead_lettered_messages_to)
        return ""
