"""Parses SQL filters and actions: the interface for the rest of the bus.

Texts are not trusted. Their length, their nesting and the number of statements are
limited, so that neither parsing nor evaluating them can exhaust memory or time.
"""

from collections.abc import Mapping

from twinbus.errors import ArgumentError
from twinbus.limits import ACTION_CHARACTERS, EXPRESSION_DEPTH, FILTER_CHARACTERS
from twinbus.rules.action import Statement
from twinbus.rules.expressions import Expression
from twinbus.rules.typed_value import TypedValue


def parse_filter(text: str, parameters: Mapping[str, TypedValue]) -> Expression:
    """The predicate of a SQL filter. Raises ArgumentError."""
    _check_length("filter", text, FILTER_CHARACTERS)
    predicate = _parse("filter", text, parameters)
    assert isinstance(predicate, Expression)
    _check_depth("filter", predicate)
    return predicate


def parse_action(text: str, parameters: Mapping[str, TypedValue]) -> list[Statement]:
    """The statements of a SQL action. Raises ArgumentError."""
    _check_length("action", text, ACTION_CHARACTERS)
    statements = _parse("action", text, parameters)
    assert isinstance(statements, list)
    for statement in statements:
        if statement.value is not None:
            _check_depth("action", statement.value)
    return statements


def _parse(start: str, text: str, parameters: Mapping[str, TypedValue]) -> object:
    # Importing the parser library takes a while, and most buses have no SQL rules.
    from twinbus.rules.sql.grammar import parse

    return parse(start, text, parameters)


def _check_length(kind: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise ArgumentError(
            f"The SQL {kind} has {len(text)} characters; at most {limit} are allowed. "
            "Use parameters for long values, or several rules."
        )
    if not text.strip():
        raise ArgumentError(f"The SQL {kind} is empty; it needs an expression.")


def _check_depth(kind: str, root: Expression) -> None:
    level = [root]
    depth = 0
    while level:
        depth += 1
        if depth > EXPRESSION_DEPTH:
            raise ArgumentError(
                f"The SQL {kind} has operators nested deeper than {EXPRESSION_DEPTH}. "
                "Chains of AND and OR may be longer."
            )
        level = [part for node in level for part in node.parts()]
