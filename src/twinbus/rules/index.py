"""All rules of a topic, indexed, so that most need not be evaluated for a message.

- True filters match without a look-up; false ones are never evaluated.
- Correlation filters on the same properties share one table: the message's values are
  looked up in it once, however many filters there are.
- SQL filters that require `property = constant`, alone or in an AND, are indexed by
  that constant; only those whose constant the message has are evaluated.
- The other SQL filters are evaluated one by one, but each text with its parameters
  only once, however many subscriptions use it.

A filter that could fail is always evaluated, because its failure has an effect. The
result is the same as evaluating every rule (tests/property/test_rules_index.py).
"""

from typing import final

from twinbus.rules.expressions import Constant, Expression, Property, SystemProperty
from twinbus.rules.filter_error import FilterError
from twinbus.rules.filters import (
    CorrelationFilter,
    SqlFilter,
    TrueFilter,
    correlation_key,
)
from twinbus.rules.predicates import EQUALS, AllOf, Comparison
from twinbus.rules.rule import Rule
from twinbus.rules.typed_value import TypedValue
from twinbus.rules.values import equality_key
from twinbus.rules.view import MessageView


@final
class Matched:
    """What one subscription gets of a message. It may be shared: do not change it."""

    def __init__(self, subscription_key: str) -> None:
        self.subscription_key: str = subscription_key
        # A rule without action matched: one unchanged copy.
        self.plain: bool = False
        # The rules with an action that matched: one changed copy each.
        self.actions: list[Rule] = []
        # The first failure among its filters, or None.
        self.error: FilterError | None = None

    def add(self, rule: Rule) -> None:
        if rule.action is None:
            self.plain = True
        else:
            self.actions.append(rule)

    def merge(self, other: "Matched") -> None:
        self.plain = self.plain or other.plain
        self.actions += other.actions
        self.error = self.error or other.error


Matches = dict[str, Matched]


@final
class _Placed:
    """A rule of a subscription, as an entry of the tables."""

    def __init__(self, subscription_key: str, rule: Rule) -> None:
        self.subscription_key: str = subscription_key
        self.rule: Rule = rule

    def select(self, matches: Matches) -> None:
        _matched(matches, self.subscription_key).add(self.rule)


def _matched(matches: Matches, subscription_key: str) -> Matched:
    matched = matches.get(subscription_key)
    if matched is None:
        matched = Matched(subscription_key)
        matches[subscription_key] = matched
    return matched


@final
class _CorrelationTable:
    """Correlation filters on the same properties."""

    def __init__(self, filter: CorrelationFilter) -> None:
        self._system_names: tuple[str, ...] = filter.system_names
        self._user_names: tuple[str, ...] = filter.user_names
        self.rules: dict[tuple[object, ...], list[_Placed]] = {}

    def collect(self, view: MessageView, matches: Matches) -> None:
        key = correlation_key(self._system_names, self._user_names, view)
        if key is None:
            return
        for placed in self.rules.get(key, _NOBODY):
            placed.select(matches)


_NOBODY: list[_Placed] = []


@final
class _SharedFilter:
    """A SQL filter and all rules that have it."""

    def __init__(self, predicate: Expression) -> None:
        self.predicate: Expression = predicate
        self.rules: list[_Placed] = []

    def collect(self, view: MessageView, matches: Matches) -> None:
        try:
            if self.predicate.evaluate(view) is not True:
                return
        except FilterError as error:
            for placed in self.rules:
                matched = _matched(matches, placed.subscription_key)
                matched.error = matched.error or error
            return
        for placed in self.rules:
            placed.select(matches)


@final
class _EqualityTable:
    """SQL filters that require a constant for the same property."""

    def __init__(self, property: Property) -> None:
        self._property: Property = property
        self.filters: dict[object, list[_SharedFilter]] = {}

    def collect(self, view: MessageView, matches: Matches) -> None:
        key = equality_key(self._property.evaluate(view))
        if key is None:
            return
        for shared in self.filters.get(key, _NO_FILTER):
            shared.collect(view, matches)


_NO_FILTER: list[_SharedFilter] = []

FilterKey = tuple[str, tuple[tuple[str, TypedValue], ...]]


@final
class RuleIndex:
    """The rules of all subscriptions of one topic."""

    def __init__(self) -> None:
        # Subscription -> its rules by lower-case name.
        self._placed: dict[str, dict[str, _Placed]] = {}
        # Rules that match every message; None if it must be computed again.
        self._always: list[Matched] | None = []
        self._correlations: dict[
            tuple[tuple[str, ...], tuple[str, ...]], _CorrelationTable
        ] = {}
        # Each distinct SQL filter.
        self._filters: dict[FilterKey, _SharedFilter] = {}
        # SQL filters that are looked up, by scope and name of the property.
        self._equalities: dict[tuple[bool, str], _EqualityTable] = {}
        # SQL filters that are evaluated for every message.
        self._scanned: dict[FilterKey, _SharedFilter] = {}
        self.sql_rule_count: int = 0
        self.correlation_rule_count: int = 0

    def rules(self, subscription_key: str) -> list[Rule]:
        """The rules in the order in which they were added."""
        placed = self._placed.get(subscription_key)
        return [] if placed is None else [one.rule for one in placed.values()]

    def rule(self, subscription_key: str, name: str) -> Rule | None:
        """The rule of this name, ignoring case."""
        placed = self._placed.get(subscription_key)
        found = None if placed is None else placed.get(name.lower())
        return None if found is None else found.rule

    def add(self, subscription_key: str, rule: Rule) -> None:
        """Add a rule. The caller has checked that its name is new."""
        of_subscription = self._placed.setdefault(subscription_key, {})
        name = rule.name.lower()
        assert name not in of_subscription, f"rule {rule.name} exists already"
        placed = _Placed(subscription_key, rule)
        of_subscription[name] = placed
        filter = rule.filter
        if isinstance(filter, TrueFilter):
            self._always = None
        elif isinstance(filter, CorrelationFilter):
            self._add_correlation(filter, placed)
        elif isinstance(filter, SqlFilter):
            self._add_sql(filter, placed)

    def remove(self, subscription_key: str, rule_name: str) -> Rule | None:
        """Remove a rule and return it; None if it does not exist."""
        of_subscription = self._placed.get(subscription_key)
        if of_subscription is None:
            return None
        placed = of_subscription.pop(rule_name.lower(), None)
        if placed is None:
            return None
        if not of_subscription:
            del self._placed[subscription_key]
        filter = placed.rule.filter
        if isinstance(filter, TrueFilter):
            self._always = None
        elif isinstance(filter, CorrelationFilter):
            self._remove_correlation(filter, placed)
        elif isinstance(filter, SqlFilter):
            self._remove_sql(filter, placed)
        return placed.rule

    def remove_subscription(self, subscription_key: str) -> None:
        """Remove all rules of a subscription."""
        for rule in self.rules(subscription_key):
            self.remove(subscription_key, rule.name)

    def match(self, view: MessageView) -> list[Matched]:
        """The subscriptions that get the message, or whose filter failed; each once.
        Neither the list nor its items may be changed."""
        matches: Matches = {}
        for table in self._correlations.values():
            table.collect(view, matches)
        for equality in self._equalities.values():
            equality.collect(view, matches)
        for shared in self._scanned.values():
            shared.collect(view, matches)
        always = self._always
        if always is None:
            always = self._gather_always()
        if not matches:
            return always
        return _merged(always, matches)

    def _gather_always(self) -> list[Matched]:
        matches: Matches = {}
        for of_subscription in self._placed.values():
            for placed in of_subscription.values():
                if isinstance(placed.rule.filter, TrueFilter):
                    placed.select(matches)
        self._always = list(matches.values())
        return self._always

    def _add_correlation(self, filter: CorrelationFilter, placed: _Placed) -> None:
        self.correlation_rule_count += 1
        names = (filter.system_names, filter.user_names)
        table = self._correlations.get(names)
        if table is None:
            table = _CorrelationTable(filter)
            self._correlations[names] = table
        table.rules.setdefault(filter.key, []).append(placed)

    def _remove_correlation(self, filter: CorrelationFilter, placed: _Placed) -> None:
        self.correlation_rule_count -= 1
        names = (filter.system_names, filter.user_names)
        table = self._correlations[names]
        same = table.rules[filter.key]
        same.remove(placed)
        if not same:
            del table.rules[filter.key]
        if not table.rules:
            del self._correlations[names]

    def _add_sql(self, filter: SqlFilter, placed: _Placed) -> None:
        self.sql_rule_count += 1
        key = _filter_key(filter)
        shared = self._filters.get(key)
        if shared is None:
            shared = _SharedFilter(filter.predicate)
            self._filters[key] = shared
            self._place(key, shared)
        shared.rules.append(placed)

    def _remove_sql(self, filter: SqlFilter, placed: _Placed) -> None:
        self.sql_rule_count -= 1
        key = _filter_key(filter)
        shared = self._filters[key]
        shared.rules.remove(placed)
        if not shared.rules:
            del self._filters[key]
            self._displace(key, shared)

    def _place(self, key: FilterKey, shared: _SharedFilter) -> None:
        demand = _demanded_constant(shared.predicate)
        if demand is None:
            self._scanned[key] = shared
            return
        property, constant = demand
        name = _table_name(property)
        table = self._equalities.get(name)
        if table is None:
            table = _EqualityTable(property)
            self._equalities[name] = table
        table.filters.setdefault(constant, []).append(shared)

    def _displace(self, key: FilterKey, shared: _SharedFilter) -> None:
        demand = _demanded_constant(shared.predicate)
        if demand is None:
            del self._scanned[key]
            return
        property, constant = demand
        name = _table_name(property)
        table = self._equalities[name]
        same = table.filters[constant]
        same.remove(shared)
        if not same:
            del table.filters[constant]
        if not table.filters:
            del self._equalities[name]


def _merged(always: list[Matched], matches: Matches) -> list[Matched]:
    merged: list[Matched] = []
    for matched in always:
        other = matches.pop(matched.subscription_key, None)
        if other is None:
            merged.append(matched)
        else:
            other.merge(matched)
            merged.append(other)
    merged.extend(matches.values())
    return merged


def _filter_key(filter: SqlFilter) -> FilterKey:
    return filter.text, tuple(sorted(filter.parameters.items(), key=_name))


def _name(parameter: tuple[str, TypedValue]) -> str:
    return parameter[0]


def _table_name(property: Property) -> tuple[bool, str]:
    return isinstance(property, SystemProperty), property.name


def _demanded_constant(predicate: Expression) -> tuple[Property, object] | None:
    """A property, and the key of the constant that it must equal for the predicate to
    be true; None if there is none, or if the predicate could fail."""
    if predicate.may_fail():
        return None
    if isinstance(predicate, AllOf):
        for operand in predicate.operands:
            found = _equality(operand)
            if found is not None:
                return found
        return None
    return _equality(predicate)


def _equality(operand: Expression) -> tuple[Property, object] | None:
    if not isinstance(operand, Comparison) or operand.operator != EQUALS:
        return None
    left, right = operand.left, operand.right
    if isinstance(left, Constant):
        left, right = right, left
    if not isinstance(left, Property) or not isinstance(right, Constant):
        return None
    key = equality_key(right.value)
    return None if key is None else (left, key)
