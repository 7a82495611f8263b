"""Management operations on the rules of a subscription: add, remove, enumerate.

Adding and removing may be part of a transaction; then they are checked again, and
applied, when it is committed.
"""

from typing import Final

from twinbus.broker.admission import Duplicates
from twinbus.broker.transaction import Work
from twinbus.errors import ArgumentError, NotSupported
from twinbus.rules.rule import Rule
from twinbus.server.managed_queue import ManagedQueue, integer
from twinbus.server.request_links import Request, Response
from twinbus.server.rule_messages import described_rule, rule_of_map
from twinbus.server.subscription import Subscription
from twinbus.server.subscription_rules import SubscriptionRules

_MAX_INT: Final = (1 << 31) - 1


async def add_rule(queue: ManagedQueue, request: Request) -> Response:
    subscription, rules = _subscription(queue), queue.rules
    name = _rule_name(request)
    rule = rule_of_map(name, request.argument("rule-description"), queue.now())
    if request.transaction is not None:
        request.transaction.enlist(AddRule(subscription, rules, rule), queue.now())
    else:
        await rules.add(subscription, rule)
    return Response()


async def remove_rule(queue: ManagedQueue, request: Request) -> Response:
    subscription, rules = _subscription(queue), queue.rules
    name = _rule_name(request)
    if request.transaction is not None:
        request.transaction.enlist(RemoveRule(subscription, rules, name), queue.now())
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


class AddRule(Work):
    """Adds a rule at the end of a transaction."""

    def __init__(
        self, subscription: Subscription, rules: SubscriptionRules, rule: Rule
    ) -> None:
        super().__init__(subscription.owner)
        self._subscription = subscription
        self._rules = rules
        self._rule = rule

    def check(self, now: int) -> None:
        self._subscription.fragment().check_exists()
        self._rules.check_addition(self._subscription, self._rule)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        self._rules.apply_addition(self._subscription, self._rule)


class RemoveRule(Work):
    """Removes a rule at the end of a transaction."""

    def __init__(
        self, subscription: Subscription, rules: SubscriptionRules, name: str
    ) -> None:
        super().__init__(subscription.owner)
        self._subscription = subscription
        self._rules = rules
        self._name = name

    def check(self, now: int) -> None:
        self._subscription.fragment().check_exists()
        self._rules.check_removal(self._subscription, self._name)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        self._rules.apply_removal(self._subscription, self._name)
