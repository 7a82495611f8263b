"""Management operations on the rules of a subscription: add, remove, enumerate.

Adding and removing may be part of a transaction; then they are checked again, and
applied, when it is committed.
"""

from typing import Final

from twinbus.broker.admission import Duplicates
from twinbus.broker.transaction import Work
from twinbus.doors.amqp.request_links import Request, Response
from twinbus.doors.amqp.request_values import integer
from twinbus.doors.amqp.rule_messages import described_rule, rule_of_map
from twinbus.entities.subscription import Subscription
from twinbus.entities.subscription_rules import SubscriptionRules, stored_rule
from twinbus.errors import (
    ArgumentError,
    EntityAlreadyExists,
    MessagingEntityNotFound,
    NotSupported,
)
from twinbus.operations.managed_queue import ManagedQueue
from twinbus.rules.rule import Rule

_MAX_INT: Final = (1 << 31) - 1


async def add_rule(queue: ManagedQueue, request: Request) -> Response:
    subscription, rules = _subscription(queue), queue.rules
    name = _rule_name(request)
    rule = rule_of_map(name, request.argument("rule-description"), queue.now())
    if request.transaction is not None:
        earlier = request.transaction.work(queue.now())
        work = AddRule(subscription, rules, rule, earlier)
        request.transaction.enlist(work, queue.now())
    else:
        await rules.add(subscription, rule)
    return Response()


async def remove_rule(queue: ManagedQueue, request: Request) -> Response:
    subscription, rules = _subscription(queue), queue.rules
    name = _rule_name(request)
    if request.transaction is not None:
        earlier = request.transaction.work(queue.now())
        work = RemoveRule(subscription, rules, name, earlier)
        request.transaction.enlist(work, queue.now())
    else:
        await rules.remove(subscription, name)
    return Response()


async def enumerate_rules(queue: ManagedQueue, request: Request) -> Response:
    """A page of the rules; JS asks until a page is empty."""
    top = integer(request.argument("top"), "top", 0, _MAX_INT)
    skip = integer(request.argument("skip"), "skip", 0, _MAX_INT)
    found = _subscription(queue).rules()[skip : skip + top]
    if not found:
        return Response(status=204, description="No rules.")
    rules = [{"rule-description": described_rule(rule)} for rule in found]
    return Response(value={"rules": rules})


def _subscription(queue: ManagedQueue) -> Subscription:
    """Raises NotSupported."""
    if not isinstance(queue.queue, Subscription):
        raise NotSupported(
            f"'{queue.path}' is no subscription, and has no rules.",
            entity_path=queue.path,
        )
    return queue.queue


def _rule_name(request: Request) -> str:
    name = request.argument("rule-name")
    if not isinstance(name, str):
        raise ArgumentError("'rule-name' must be a string.")
    return str(name)


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
