"""Rules of subscriptions as people write them: tables of a file, or keyword arguments.

    name = "large"
    sql_filter = "amount > @limit"          or correlation_filter = { label = "eu" }
    parameters = { limit = 100 }
    action = "SET priority = 'high'"

Without a filter a rule takes every message. The names are those of the test kit too.
What is wrong is a ValueError that says where; which file it is in, the caller knows.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from twinbus.errors import ServiceBusError
from twinbus.rules.action import SqlAction
from twinbus.rules.filters import CORRELATION_FIELDS, Filter, TrueFilter
from twinbus.rules.rule import Rule
from twinbus.rules.sql.rule_checks import (
    check_rule,
    correlation_filter,
    sql_action,
    sql_filter,
)
from twinbus.rules.typed_value import typed_value

_NAMES: Final = (
    *("name", "sql_filter", "parameters", "correlation_filter", "action"),
    "action_parameters",
)
_PROPERTIES: Final = "properties"


def written_rules(rules: object, where: str) -> tuple[Rule, ...]:
    """The rules of one subscription. Raises ValueError."""
    if not isinstance(rules, list):
        raise ValueError(f"{where}: rules must be a list of tables")
    found: dict[str, Rule] = {}
    for number, table in enumerate(rules, start=1):
        place = f"{where} rule {number}"
        if not isinstance(table, dict):
            raise ValueError(f"{place}: must be a table")
        try:
            rule = written_rule(table)
        except (ServiceBusError, ValueError) as error:
            name = table.get("name")
            named = f"{where} rule '{name}'" if isinstance(name, str) else place
            raise ValueError(f"{named}: {_text(error)}") from None
        if found.setdefault(rule.name.lower(), rule) is not rule:
            raise ValueError(f"{where}: two rules are called '{rule.name}'")
    return tuple(found.values())


def _text(error: Exception) -> str:
    return error.text if isinstance(error, ServiceBusError) else str(error)


def written_rule(table: Mapping[str, Any]) -> Rule:
    """The rule that the table says, as yet of no age.

    Raises ValueError, and ArgumentError and ArgumentOutOfRange as rules do.
    """
    for name in table:
        if name not in _NAMES:
            known = ", ".join(_NAMES)
            raise ValueError(f"unknown name '{name}'; known are {known}")
    if "name" not in table:
        raise ValueError("'name' is missing")
    return check_rule(_words(table, "name"), _filter(table), _action(table), 0)


def _filter(table: Mapping[str, Any]) -> Filter:
    if "sql_filter" in table and "correlation_filter" in table:
        raise ValueError("give 'sql_filter' or 'correlation_filter', not both")
    if "sql_filter" in table:
        return sql_filter(_words(table, "sql_filter"), _values(table, "parameters"))
    if "parameters" in table:
        raise ValueError("'parameters' are those of a 'sql_filter', and there is none")
    if "correlation_filter" in table:
        given = _table(table["correlation_filter"], "correlation_filter")
        fields: dict[str, str | None] = {
            name: _words(given, name) for name in given if name != _PROPERTIES
        }
        _check_fields(fields)
        return correlation_filter(fields, _values(given, _PROPERTIES))
    return TrueFilter()


def _check_fields(fields: Mapping[str, object]) -> None:
    for name in fields:
        if name not in CORRELATION_FIELDS:
            known = ", ".join((*CORRELATION_FIELDS, _PROPERTIES))
            raise ValueError(
                f"correlation_filter: unknown name '{name}'; known are {known}"
            )


def _action(table: Mapping[str, Any]) -> SqlAction | None:
    if "action" in table:
        return sql_action(_words(table, "action"), _values(table, "action_parameters"))
    if "action_parameters" in table:
        raise ValueError("'action_parameters' are given, and 'action' is not")
    return None


def _words(table: Mapping[str, Any], name: str) -> str:
    value = table[name]
    if not isinstance(value, str):
        raise ValueError(f"{name}: {value!r} is not a text")
    return value


def _values(table: Mapping[str, Any], name: str) -> dict[str, object]:
    values = _table(table.get(name, {}), name)
    return {key: _value(value, f"{name}: {key}") for key, value in values.items()}


def _value(value: object, where: str) -> object:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{where}: {value} has no offset from UTC")
        return typed_value("dateTime", value.isoformat())
    return value


def _table(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: {value!r} is not a table")
    return value
