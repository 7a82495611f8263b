"""An entity, or a sub-queue of it, as management operations see it."""

from twinbus.broker.fragment import Fragment
from twinbus.broker.transfer_queue import is_transfer_queue
from twinbus.entities.entity import Entity
from twinbus.entities.queue import Queue
from twinbus.entities.subscription_rules import SubscriptionRules
from twinbus.links.arrivals import Arrivals
from twinbus.operations.session_pages import SessionPages
from twinbus.owner.store_owner import StoreOwner, owner_of


class ManagedQueue:
    """What an operation works on."""

    def __init__(
        self,
        queue: Entity,
        sub_queue: int,
        actor: int,
        arrivals: Arrivals,
        session_pages: SessionPages,
        rules: SubscriptionRules,
    ) -> None:
        self.queue = queue
        self.sub_queue = sub_queue
        self.fragment: Fragment = queue.fragment(sub_queue)
        self.actor = actor
        # Reads the messages that requests carry.
        self.arrivals = arrivals
        # How far the connection's lists of sessions have come.
        self.session_pages = session_pages
        # Changes the rules of subscriptions.
        self.rules = rules

    @property
    def path(self) -> str:
        return self.fragment.settings.path

    @property
    def is_transfer_queue(self) -> bool:
        return isinstance(self.queue, Queue) and is_transfer_queue(self.queue.path)

    @property
    def max_message_bytes(self) -> int:
        return self.arrivals.max_message_bytes

    @property
    def owner(self) -> StoreOwner:
        return owner_of(self.fragment)

    def now(self) -> int:
        return self.owner.clock.now()

    async def settle_down(self) -> None:
        """Let everything asked for so far become durable, so that what is read from
        the store is what is true. Raises MessagingEntityNotFound."""
        if not self.owner.is_idle():
            await self.owner.durable()
        self.fragment.check_exists()
