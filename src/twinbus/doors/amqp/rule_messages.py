"""Reads and writes rules in AMQP management messages.

A request carries a rule as a map, and an answer as a described list. The descriptors of
filters and actions differ in their number of zeros; the SDKs rely on it.
"""

from typing import Any, Final

from twinbus.amqp.types import Described, Int, Timestamp, ULong
from twinbus.encoding.rule_values import amqp_of_typed, typed_of_amqp
from twinbus.errors import ArgumentError
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
from twinbus.rules.sql.rule_checks import (
    check_rule,
    correlation_filter,
    sql_action,
    sql_filter,
)

_RULE: Final = ULong(0x13700000004)
_EMPTY_ACTION: Final = ULong(0x13700000005)
_SQL_ACTION: Final = ULong(0x13700000006)
_SQL_FILTER: Final = ULong(0x1370000006)
_TRUE_FILTER: Final = ULong(0x1370000007)
_FALSE_FILTER: Final = ULong(0x1370000008)
_CORRELATION_FILTER: Final = ULong(0x1370000009)

_COMPATIBILITY_LEVEL: Final = Int(20)


def rule_of_map(name: str, description: Any, now: int) -> Rule:
    """The rule that a request describes. Raises ArgumentError, ArgumentOutOfRange."""
    values = _map(description, "rule-description")
    return check_rule(name, _filter(values), _action(values), now)


def _filter(values: dict[str, Any]) -> Filter:
    if values.get("sql-filter") is not None:
        sql = _map(values["sql-filter"], "sql-filter")
        return sql_filter(_expression(sql, "sql-filter"), _values(sql, "parameters"))
    if values.get("correlation-filter") is not None:
        given = _map(values["correlation-filter"], "correlation-filter")
        fields = {
            name: _text_or_none(given, name.replace("_", "-"))
            for name in CORRELATION_FIELDS
        }
        return correlation_filter(fields, _values(given, "properties"))
    if "true-filter" in values:
        return TrueFilter()
    if "false-filter" in values:
        return FalseFilter()
    raise ArgumentError(
        "'rule-description' needs a 'sql-filter', a 'correlation-filter', a "
        "'true-filter' or a 'false-filter'."
    )


def _action(values: dict[str, Any]) -> SqlAction | None:
    if values.get("sql-rule-action") is None:
        return None
    sql = _map(values["sql-rule-action"], "sql-rule-action")
    text = _expression(sql, "sql-rule-action")
    return sql_action(text, _values(sql, "parameters"))


def _map(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ArgumentError(f"'{name}' must be a map.")
    return {str(key): item for key, item in value.items()}


def _expression(values: dict[str, Any], name: str) -> str:
    expression = values.get("expression")
    if not isinstance(expression, str):
        raise ArgumentError(f"'{name}' needs the text 'expression'.")
    return str(expression)


def _text_or_none(values: dict[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"'{name}' of a correlation filter must be a string.")
    return None if value is None else str(value)


def _values(values: dict[str, Any], name: str) -> dict[str, object]:
    given = values.get(name)
    if given is None:
        return {}
    return {key: typed_of_amqp(value) for key, value in _map(given, name).items()}


def described_rule(rule: Rule) -> Described:
    """The rule as `enumerate-rules` lists it."""
    return Described(
        _RULE,
        [
            _described_filter(rule.filter),
            _described_action(rule.action),
            rule.name,
            Timestamp(rule.created_at),
        ],
    )


def _described_filter(filter: Filter) -> Described:
    if isinstance(filter, SqlFilter):
        return Described(_SQL_FILTER, [filter.text, _COMPATIBILITY_LEVEL])
    if isinstance(filter, CorrelationFilter):
        fields: list[object] = [filter.fields.get(name) for name in CORRELATION_FIELDS]
        properties = {
            name: amqp_of_typed(value) for name, value in filter.properties.items()
        }
        return Described(_CORRELATION_FILTER, [*fields, properties])
    is_true = isinstance(filter, TrueFilter)
    return Described(_TRUE_FILTER if is_true else _FALSE_FILTER, [])


def _described_action(action: SqlAction | None) -> Described:
    # Never null: an SDK reads the descriptor without a check.
    if action is None:
        return Described(_EMPTY_ACTION, [])
    return Described(_SQL_ACTION, [action.text, _COMPATIBILITY_LEVEL])
