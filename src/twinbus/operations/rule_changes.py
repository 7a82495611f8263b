"""Changes of a subscription's rules as parts of a transaction."""

from twinbus.broker.admission import Duplicates
from twinbus.broker.transaction import Work
from twinbus.entities.subscription import Subscription
from twinbus.entities.subscription_rules import SubscriptionRules, stored_rule
from twinbus.errors import EntityAlreadyExists, MessagingEntityNotFound
from twinbus.rules.rule import Rule


class RuleChange(Work):
    """A change of a subscription's rules at the end of a transaction.

    Checked against the rules as the changes before it in the same transaction will
    leave them.
    """

    def __init__(
        self,
        subscription: Subscription,
        rules: SubscriptionRules,
        name: str,
        earlier: list[Work],
    ) -> None:
        super().__init__(subscription.fragment().home)
        self.subscription = subscription
        self.rules = rules
        self.name = name
        # The last change of the same rule before this one.
        self._before: RuleChange | None = None
        for work in earlier:
            if isinstance(work, RuleChange) and work.is_about(subscription, name):
                self._before = work

    def is_about(self, subscription: Subscription, name: str) -> bool:
        return self.subscription is subscription and self.name.lower() == name.lower()

    def will_exist(self) -> bool:
        """The rule is there before this change."""
        if self._before is not None:
            return isinstance(self._before, AddRule)
        index = self.subscription.router.rules()
        return index.rule(self.subscription.key, self.name) is not None

    @property
    def path(self) -> str:
        return f"{self.subscription.path}/Rules/{self.name}"


class AddRule(RuleChange):
    """Adds a rule."""

    def __init__(
        self,
        subscription: Subscription,
        rules: SubscriptionRules,
        rule: Rule,
        earlier: list[Work],
    ) -> None:
        super().__init__(subscription, rules, rule.name, earlier)
        self._rule = rule
        self.added_bytes = len(stored_rule(0, rule).definition)
        # All that the transaction adds to the topic; shared by those who add it.
        self.added: list[Rule] = []
        for work in earlier:
            if isinstance(work, AddRule) and work.is_of_topic(subscription):
                self.added = work.added
                break
        self.added.append(rule)

    def is_of_topic(self, subscription: Subscription) -> bool:
        return self.subscription.router is subscription.router

    def check(self, now: int) -> None:
        self.subscription.fragment().check_exists()
        if self.will_exist():
            raise EntityAlreadyExists(entity_path=self.path)
        # The last one asks for all of them: alone each may have room.
        if self.added[-1] is self._rule:
            router, topic_path = self.subscription.router, self.subscription.topic_path
            self.rules.check_counts(router, topic_path, self.added)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        self.rules.apply_addition(self.subscription, self._rule)


class RemoveRule(RuleChange):
    """Removes a rule."""

    def check(self, now: int) -> None:
        self.subscription.fragment().check_exists()
        if not self.will_exist():
            raise MessagingEntityNotFound(entity_path=self.path)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        self.rules.apply_removal(self.subscription, self.name)
