"""Changes of a subscription's rules in a transaction."""

from twinbus.broker.admission import Duplicates
from twinbus.broker.transaction import Work
from twinbus.entities.subscription import Subscription
from twinbus.entities.subscription_rules import SubscriptionRules, stored_rule
from twinbus.errors import EntityAlreadyExists, MessagingEntityNotFound
from twinbus.rules.rule import Rule


class RuleChange(Work):
    """A change of a subscription's rules, applied at the end of a transaction.

    It is checked as if earlier changes of the same transaction were already applied.
    """

    def __init__(
        self,
        subscription: Subscription,
        rules: SubscriptionRules,
        name: str,
        earlier: list[Work],
    ) -> None:
        path = f"{subscription.path}/Rules/{name}"
        super().__init__(subscription.fragment().home, path)
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
        """True if the rule will exist before this change is applied."""
        if self._before is not None:
            return isinstance(self._before, AddRule)
        index = self.subscription.router.rules()
        return index.rule(self.subscription.key, self.name) is not None


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
        # All rules that the transaction adds to the topic; all AddRule share the list.
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
        # The last one checks the quota for all together.
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
