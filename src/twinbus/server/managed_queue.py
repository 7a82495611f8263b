"""An entity, or a sub-queue of it, as management operations see it."""

from typing import Any

from twinbus.amqp.types import AmqpArray
from twinbus.broker.fragment import Fragment
from twinbus.broker.transfer_queue import is_transfer_queue
from twinbus.errors import ArgumentError, ArgumentOutOfRange
from twinbus.limits import SEQUENCE_NUMBERS_PER_REQUEST
from twinbus.links.arrivals import Arrivals
from twinbus.server.entity import Entity
from twinbus.server.owner import StoreOwner
from twinbus.server.queue import Queue
from twinbus.server.session_pages import SessionPages
from twinbus.server.subscription_rules import SubscriptionRules


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
        return self.queue.owner

    def now(self) -> int:
        return self.owner.clock.now()

    async def settle_down(self) -> None:
        """Let everything asked for so far become durable, so that what is read from
        the store is what is true. Raises MessagingEntityNotFound."""
        if not self.owner.is_idle():
            await self.owner.durable()
        self.fragment.check_exists()


def array_items(value: Any, name: str) -> list[Any]:
    """The items of an AMQP array or list. Raises ArgumentError."""
    items = value.items if isinstance(value, AmqpArray) else value
    if not isinstance(items, list | tuple) or not items:
        raise ArgumentError(f"'{name}' must be an array with at least one item.")
    if len(items) > SEQUENCE_NUMBERS_PER_REQUEST:
        raise ArgumentOutOfRange(
            f"'{name}' has {len(items)} items; at most "
            f"{SEQUENCE_NUMBERS_PER_REQUEST} are allowed."
        )
    return list(items)


def integer(value: Any, name: str, low: int, high: int) -> int:
    """A whole number of any width. Raises ArgumentError, ArgumentOutOfRange."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(f"'{name}' must be a whole number.")
    if not low <= value <= high:
        raise ArgumentOutOfRange(
            f"'{name}' is {int(value)}; it must be from {low} to {high}."
        )
    return int(value)
