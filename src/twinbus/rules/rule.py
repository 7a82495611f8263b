"""A rule of a subscription: a name, a filter, and perhaps an action.

A rule is an immutable value, made when it is added or read from the store; only valid
rules are made. It is stored as a JSON object of texts, in which values keep their
types. Reading one needs the parser, and so is in `rules/sql`.
"""

from typing import Any, Final, final

from twinbus.rules.action import SqlAction
from twinbus.rules.filters import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    SqlFilter,
    TrueFilter,
)
from twinbus.rules.typed_value import TypedValue

DEFAULT_RULE: Final = "$Default"
"""The rule that a subscription is created with, unless another one is given."""


@final
class Rule:
    """Never changed: an update makes another rule of the same name."""

    def __init__(
        self, name: str, filter: Filter, action: SqlAction | None, created_at: int
    ) -> None:
        self.name: str = name
        self.filter: Filter = filter
        self.action: SqlAction | None = action
        self.created_at: int = created_at

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "name": self.name,
            "filter": _filter_json(self.filter),
            "created_at": self.created_at,
        }
        if self.action is not None:
            document["action"] = {
                "text": self.action.text,
                "parameters": _values_json(self.action.parameters),
            }
        return document


def default_rule(created_at: int) -> Rule:
    """A rule that selects all messages and leaves them unchanged."""
    return Rule(DEFAULT_RULE, TrueFilter(), None, created_at)


def _filter_json(filter: Filter) -> dict[str, Any]:
    if isinstance(filter, SqlFilter):
        parameters = _values_json(filter.parameters)
        return {"kind": "sql", "text": filter.text, "parameters": parameters}
    if isinstance(filter, CorrelationFilter):
        properties = _values_json(filter.properties)
        return {
            "kind": "correlation",
            "fields": dict(filter.fields),
            "properties": properties,
        }
    assert isinstance(filter, TrueFilter | FalseFilter)
    return {"kind": "true" if isinstance(filter, TrueFilter) else "false"}


def _values_json(values: dict[str, TypedValue]) -> dict[str, list[str]]:
    return {name: [value.type_name, value.text] for name, value in values.items()}
