"""Checks the parts of a rule, and makes the rule.

Management over AMQP and HTTP, and the reader of the store, make the filter and the
action first, and then the rule. All refusals are here, with the limit, the value and a
hint; a `Rule` that exists is valid.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from twinbus.errors import ArgumentError, ArgumentOutOfRange
from twinbus.limits import (
    RULE_NAME_CHARACTERS,
    RULE_VALUE_CHARACTERS,
    RULE_VALUES,
)
from twinbus.rules.action import SqlAction
from twinbus.rules.filters import (
    CORRELATION_FIELDS,
    CorrelationFilter,
    FalseFilter,
    Filter,
    SqlFilter,
    TrueFilter,
)
from twinbus.rules.rule import Rule
from twinbus.rules.sql.parsing import parse_action, parse_filter
from twinbus.rules.typed_value import TypedValue, typed, typed_value

_NAME: Final = re.compile(r"[\w.$-]+", re.ASCII)


def check_rule(
    name: str, filter: Filter, action: SqlAction | None, created_at: int
) -> Rule:
    """A rule of this name. Raises ArgumentError, ArgumentOutOfRange."""
    if not 1 <= len(name) <= RULE_NAME_CHARACTERS:
        raise ArgumentOutOfRange.measured(
            "length of the rule's name",
            value=len(name),
            lowest=1,
            highest=RULE_NAME_CHARACTERS,
        )
    if _NAME.fullmatch(name) is None:
        raise ArgumentError.about(
            "name of the rule",
            value=name,
            expected="letters, digits, periods, hyphens, underscores and '$'",
        )
    return Rule(name, filter, action, created_at)


def sql_filter(text: str, parameters: Mapping[str, object] | None = None) -> SqlFilter:
    """Parameters are values, or TypedValues to keep their types. Their names may begin
    with `@`. Raises ArgumentError."""
    values = _values("parameters of the filter", parameters)
    return SqlFilter(text, values, parse_filter(text, values))


def sql_action(text: str, parameters: Mapping[str, object] | None = None) -> SqlAction:
    """Raises ArgumentError."""
    values = _values("parameters of the action", parameters)
    return SqlAction(text, values, parse_action(text, values))


def correlation_filter(
    fields: Mapping[str, str | None], properties: Mapping[str, object] | None = None
) -> CorrelationFilter:
    """Fields are named as in CORRELATION_FIELDS; those that are None are ignored.
    Raises ArgumentError."""
    for name in fields:
        if name not in CORRELATION_FIELDS:
            raise ArgumentError.about(
                "field of the correlation filter",
                value=name,
                expected=f"one of {', '.join(CORRELATION_FIELDS)}",
            )
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        _check_field(name, value)
    values = _values("properties of the correlation filter", properties)
    if not given and not values:
        raise ArgumentError(
            "The correlation filter names no property. Give at least one of "
            f"{', '.join(CORRELATION_FIELDS)} and application properties; to select "
            "all messages use a true filter."
        )
    return CorrelationFilter(given, values)


def _check_field(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ArgumentError.about(
            f"{name} of the correlation filter", value=value, expected="a text"
        )
    if len(value) > RULE_VALUE_CHARACTERS:
        raise ArgumentOutOfRange.measured(
            f"length of {name} of the correlation filter",
            value=len(value),
            lowest=0,
            highest=RULE_VALUE_CHARACTERS,
        )


def _values(what: str, values: Mapping[str, object] | None) -> dict[str, TypedValue]:
    """The values with their types; names must differ in more than case."""
    if values is None:
        return {}
    if len(values) > RULE_VALUES:
        raise ArgumentOutOfRange.measured(
            f"number of {what}", value=len(values), lowest=0, highest=RULE_VALUES
        )
    checked: dict[str, TypedValue] = {}
    seen: set[str] = set()
    for name, value in values.items():
        lower = name.removeprefix("@").lower()
        if not lower or lower in seen or len(name) > RULE_VALUE_CHARACTERS:
            raise ArgumentError.about(
                what,
                value=name[:RULE_NAME_CHARACTERS],
                expected="names that are not empty, not too long, and not repeated",
            )
        seen.add(lower)
        checked[name] = typed(value)
    return checked


def rule_of_json(document: Mapping[str, Any]) -> Rule:
    """The rule that `Rule.to_json` wrote."""
    action = document.get("action")
    return check_rule(
        document["name"],
        _filter_of_json(document["filter"]),
        None
        if action is None
        else sql_action(action["text"], _values_of_json(action["parameters"])),
        document["created_at"],
    )


def _filter_of_json(document: Mapping[str, Any]) -> Filter:
    kind = document["kind"]
    if kind == "sql":
        parameters = _values_of_json(document["parameters"])
        return sql_filter(document["text"], parameters)
    if kind == "correlation":
        properties = _values_of_json(document["properties"])
        return correlation_filter(document["fields"], properties)
    assert kind in ("true", "false"), f"{kind} is not a kind of filter"
    return TrueFilter() if kind == "true" else FalseFilter()


def _values_of_json(document: Mapping[str, list[str]]) -> dict[str, TypedValue]:
    return {name: typed_value(pair[0], pair[1]) for name, pair in document.items()}
