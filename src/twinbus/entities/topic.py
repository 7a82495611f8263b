"""A topic: it passes its messages on to its subscriptions."""

from twinbus.broker.descriptions.topic import TopicDescription
from twinbus.broker.fragment import MAIN
from twinbus.broker.fragment_table import FragmentTable
from twinbus.entities.entity import Entity
from twinbus.entities.subscription import Subscription
from twinbus.errors import NotAllowed
from twinbus.store.catalog import EntityRecord
from twinbus.topics.topic import TopicRouter


class Topic(Entity):
    """One topic of the namespace."""

    __slots__ = ("router", "subscriptions")

    description: TopicDescription

    def __init__(
        self,
        record: EntityRecord,
        description: TopicDescription,
        router: TopicRouter,
        tables: tuple[FragmentTable, ...],
        now: int,
    ) -> None:
        super().__init__(record, description, tables, now)
        self.router = router
        # By lower-case name.
        self.subscriptions: dict[str, Subscription] = {}

    def subscription_count(self) -> int:
        return len(self.subscriptions)

    def sql_filter_count(self) -> int:
        """Number of SQL filters; true and false filters count as such."""
        index = self.router.rules()
        rules = [rule for key in self.subscriptions for rule in index.rules(key)]
        return len(rules) - index.correlation_rule_count

    def correlation_filter_count(self) -> int:
        return self.router.rules().correlation_rule_count

    def size_bytes(self) -> int:
        """Size of its scheduled messages, and of all its subscriptions."""
        own = super().size_bytes()
        return own + sum(item.size_bytes() for item in self.subscriptions.values())

    def is_idle_since(self, instant: int) -> bool:
        """False while one of its subscriptions is in use."""
        return super().is_idle_since(instant) and all(
            item.is_idle_since(instant) for item in self.subscriptions.values()
        )

    def check_may_send(self) -> None:
        if not self.description.may_send():
            raise self._disabled("sending")

    def check_may_receive(self, sub_queue: int = MAIN) -> None:
        raise NotAllowed(
            f"'{self.path}' is a topic: receive from one of its subscriptions.",
            entity_path=self.path,
        )


def subscriptions_of(entity: Entity) -> "list[Subscription]":
    """None, if it is not a topic."""
    return list(entity.subscriptions.values()) if isinstance(entity, Topic) else []
