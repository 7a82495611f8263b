"""A subscription: a queue that is filled by its topic, as its rules say."""

from twinbus.broker.descriptions.forward_path import forward_path
from twinbus.broker.descriptions.subscription import SubscriptionDescription
from twinbus.broker.entity_path import split_subscription_path
from twinbus.broker.fragment import DEAD_LETTER, MAIN
from twinbus.errors import NotAllowed
from twinbus.rules.rule import Rule
from twinbus.server.entity import Entity
from twinbus.server.owner import StoreOwner
from twinbus.store.catalog import EntityRecord
from twinbus.topics.topic import TopicRouter


class Subscription(Entity):
    """One subscription of a topic."""

    __slots__ = ("router",)

    description: SubscriptionDescription

    def __init__(
        self,
        record: EntityRecord,
        description: SubscriptionDescription,
        router: TopicRouter,
        owner: StoreOwner,
        now: int,
    ) -> None:
        super().__init__(record, description, owner, now)
        # The topic's, which knows the rules.
        self.router = router

    @property
    def topic_path(self) -> str:
        return split_subscription_path(self.path)[0]

    @property
    def name(self) -> str:
        return split_subscription_path(self.path)[1]

    @property
    def key(self) -> str:
        """What the topic's router knows it by."""
        return self.name.lower()

    @property
    def accessed_at(self) -> int:
        """Of the last receive: what its topic passes on is no use of it."""
        return self.used_at

    def rules(self) -> list[Rule]:
        """By name."""
        rules = self.router.rules().rules(self.key)
        return sorted(rules, key=lambda rule: rule.name.lower())

    def check_may_send(self) -> None:
        raise NotAllowed(
            f"'{self.path}' is a subscription: send to its topic.",
            entity_path=self.path,
        )

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
