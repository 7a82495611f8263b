"""Converts rules to and from XML.

Reading returns the JSON document from which `rules/` makes a rule, so that all checks
are there. Values keep their type and text.
"""

from typing import Any, Final

from twinbus.doors.http.administration.xml_reading import XmlElement
from twinbus.doors.http.administration.xml_writing import (
    description,
    element,
    instant,
    parent,
)
from twinbus.errors import ArgumentError
from twinbus.rules.action import SqlAction
from twinbus.rules.filters import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    SqlFilter,
)
from twinbus.rules.rule import Rule
from twinbus.rules.typed_value import TypedValue

_SCHEMA: Final = "http://www.w3.org/2001/XMLSchema"
_COMPATIBILITY_LEVEL: Final = "20"

# In the order of the wire.
_CORRELATION_ELEMENTS: Final = {
    "CorrelationId": "correlation_id",
    "MessageId": "message_id",
    "To": "to",
    "ReplyTo": "reply_to",
    "Label": "label",
    "SessionId": "session_id",
    "ReplyToSessionId": "reply_to_session_id",
    "ContentType": "content_type",
}


def write_rule(rule: Rule) -> str:
    """The content of a rule's entry."""
    return description(
        "RuleDescription",
        (
            _write_filter(rule.filter),
            _write_action(rule.action),
            element("CreatedAt", instant(rule.created_at)),
            element("Name", rule.name),
        ),
    )


def _write_filter(filter: Filter) -> str:
    if isinstance(filter, CorrelationFilter):
        asked = "".join(
            element(name, filter.fields[field])
            for name, field in _CORRELATION_ELEMENTS.items()
            if field in filter.fields
        )
        asked += _write_values("Properties", filter.properties)
        return parent("Filter", asked, ' i:type="CorrelationFilter"')
    if isinstance(filter, SqlFilter):
        sql = _write_sql(filter.text, filter.parameters)
        return parent("Filter", sql, ' i:type="SqlFilter"')
    if isinstance(filter, FalseFilter):
        return parent("Filter", _write_sql("1=0", {}), ' i:type="FalseFilter"')
    return parent("Filter", _write_sql("1=1", {}), ' i:type="TrueFilter"')


def _write_action(action: SqlAction | None) -> str:
    """Always written: JavaScript and Python expect it."""
    if action is None:
        return '<Action i:type="EmptyRuleAction"/>'
    sql = _write_sql(action.text, action.parameters)
    return parent("Action", sql, ' i:type="SqlRuleAction"')


def _write_sql(text: str, parameters: dict[str, TypedValue]) -> str:
    return (
        element("SqlExpression", text)
        + element("CompatibilityLevel", _COMPATIBILITY_LEVEL)
        + _write_values("Parameters", parameters)
    )


def _write_values(name: str, values: dict[str, TypedValue]) -> str:
    if not values:
        # JavaScript fails for an empty element.
        return ""
    pairs = "".join(_write_value(key, value) for key, value in values.items())
    return parent(name, pairs)


def _write_value(key: str, value: TypedValue) -> str:
    # JavaScript needs this spelling, and removes a prefix of this length.
    declared = f' i:type="d6p1:{value.type_name}" xmlns:d6p1="{_SCHEMA}"'
    return parent(
        "KeyValueOfstringanyType",
        element("Key", key) + element("Value", value.text, declared),
    )


def read_rule(content: XmlElement, name: str, path: str) -> dict[str, Any]:
    """The rule as the JSON document of `Rule.to_json`. Raises ArgumentError."""
    document: dict[str, Any] = {
        "name": name,
        "filter": _read_filter(content.child("Filter"), path),
    }
    action = content.child("Action")
    if action is not None and action.type_name == "SqlRuleAction":
        document["action"] = _read_sql(action, path)
    elif action is not None and action.type_name not in ("EmptyRuleAction", ""):
        raise _unknown("Action", action, "EmptyRuleAction or SqlRuleAction", path)
    return document


def _read_filter(filter: XmlElement | None, path: str) -> dict[str, Any]:
    if filter is None or filter.type_name == "TrueFilter":
        return {"kind": "true"}
    if filter.type_name == "FalseFilter":
        return {"kind": "false"}
    if filter.type_name == "SqlFilter":
        return {"kind": "sql", **_read_sql(filter, path)}
    if filter.type_name == "CorrelationFilter":
        return {
            "kind": "correlation",
            "fields": {
                field: text
                for name, field in _CORRELATION_ELEMENTS.items()
                if (text := _text(filter.child(name)))
            },
            "properties": _read_values(filter.child("Properties"), path),
        }
    kinds = "SqlFilter, CorrelationFilter, TrueFilter or FalseFilter"
    raise _unknown("Filter", filter, kinds, path)


def _read_sql(parent_element: XmlElement, path: str) -> dict[str, Any]:
    return {
        "text": _text(parent_element.child("SqlExpression")),
        "parameters": _read_values(parent_element.child("Parameters"), path),
    }


def _text(child: XmlElement | None) -> str:
    return "" if child is None else child.text


def _read_values(values: XmlElement | None, path: str) -> dict[str, list[str]]:
    """Type and text of each value, by name."""
    read: dict[str, list[str]] = {}
    for pair in values.children if values is not None else ():
        key, value = pair.child("Key"), pair.child("Value")
        if key is None or value is None:
            raise ArgumentError(
                f"A value of a rule of '{path}' lacks its Key or its Value.",
                entity_path=path,
            )
        read[key.text] = [value.type_name or "string", value.text]
    return read


def _unknown(name: str, found: XmlElement, expected: str, path: str) -> ArgumentError:
    return ArgumentError(
        f"The type of '{name}' of a rule of '{path}' is '{found.type_name}'; it must "
        f"be {expected}.",
        entity_path=path,
    )
