"""Builds the expressions of `rules` from the parser's tree, without recursion.

Each method is named after an alternative of `rules.lark` and gets the results of its
parts. It checks what the grammar cannot: that functions, scopes and parameters exist,
that numbers fit, that an action sets only properties that may be set.
"""

import math
from collections.abc import Mapping
from typing import Final

from lark import Token, v_args
from lark.visitors import Transformer_NonRecursive

from twinbus.errors import ArgumentError
from twinbus.limits import ACTION_STATEMENTS
from twinbus.rules.action import Statement
from twinbus.rules.arithmetic import INTEGER_HIGHEST, negative
from twinbus.rules.expressions import (
    Arithmetic,
    Constant,
    Expression,
    Negative,
    NewId,
    Positive,
    Property,
    PropertyOf,
    SystemProperty,
    UserProperty,
)
from twinbus.rules.predicates import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    In,
    IsNull,
    Like,
    Not,
)
from twinbus.rules.sql.text_error import text_error
from twinbus.rules.system_properties import NAMES, SETTABLE
from twinbus.rules.typed_value import TypedValue

_PROPERTY_FUNCTIONS: Final = ("property", "p")


@v_args(inline=True)
class NodeBuilder(Transformer_NonRecursive[Token, object]):
    """Builds the expressions of one text."""

    def __init__(self, text: str, parameters: Mapping[str, TypedValue]) -> None:
        super().__init__()
        self._text = text
        # Names without `@`, in lower case.
        self._parameters = {
            name.removeprefix("@").lower(): value for name, value in parameters.items()
        }

    def _error(self, token: Token, problem: str, hint: str) -> ArgumentError:
        return text_error(self._text, token.start_pos or 0, problem, hint)

    def filter(self, predicate: Expression) -> Expression:
        return predicate

    def action(self, *parts: object) -> list[Statement]:
        statements = [part for part in parts if isinstance(part, Statement)]
        if len(statements) > ACTION_STATEMENTS:
            raise ArgumentError(
                f"The SQL action has {len(statements)} statements; at most "
                f"{ACTION_STATEMENTS} are allowed."
            )
        return statements

    def separator(self) -> None:
        return None

    def set(self, keyword: Token, target: Property, value: Expression) -> Statement:
        return Statement(self._settable(keyword, target), value)

    def remove(self, keyword: Token, target: Property) -> Statement:
        return Statement(self._settable(keyword, target), None)

    def _settable(self, keyword: Token, target: Property) -> Property:
        if isinstance(target, SystemProperty) and target.name not in SETTABLE:
            known = "is read-only" if target.name in NAMES else "does not exist"
            raise self._error(
                keyword,
                f"the system property 'sys.{target.name}' {known}",
                f"An action may change: {', '.join(sorted(SETTABLE))}.",
            )
        return target

    def any_of(self, *operands: Expression) -> Expression:
        flat: list[Expression] = []
        for operand in operands:
            flat += operand.operands if isinstance(operand, AnyOf) else [operand]
        return AnyOf(flat)

    def all_of(self, *operands: Expression) -> Expression:
        flat: list[Expression] = []
        for operand in operands:
            flat += operand.operands if isinstance(operand, AllOf) else [operand]
        return AllOf(flat)

    def negated(self, operand: Expression) -> Expression:
        return Not(operand)

    def comparator(self, operator: Token) -> str:
        return "<>" if operator == "!=" else str(operator)

    def compared(
        self, left: Expression, operator: str, right: Expression
    ) -> Expression:
        return Comparison(operator, left, right)

    def is_null(self, operand: Expression) -> Expression:
        return IsNull(operand)

    def is_not_null(self, operand: Expression) -> Expression:
        return Not(IsNull(operand))

    def candidates(self, *candidates: Expression) -> list[Expression]:
        return list(candidates)

    def contained(
        self, operand: Expression, candidates: list[Expression]
    ) -> Expression:
        return In(operand, candidates)

    def not_contained(
        self, operand: Expression, candidates: list[Expression]
    ) -> Expression:
        return Not(In(operand, candidates))

    def like(
        self, operand: Expression, pattern: Expression, escape: Expression | None
    ) -> Expression:
        return Like(operand, pattern, escape)

    def not_like(
        self, operand: Expression, pattern: Expression, escape: Expression | None
    ) -> Expression:
        return Not(Like(operand, pattern, escape))

    def calculated(
        self, left: Expression, operator: Token, right: Expression
    ) -> Expression:
        return Arithmetic(str(operator), left, right)

    def signed(self, sign: Token, operand: Expression) -> Expression:
        if isinstance(operand, Constant) and isinstance(operand.value, int | float):
            # A number with a sign is a constant, and so can be indexed.
            value = operand.value
            return Constant(negative(value) if sign == "-" else value)
        return Negative(operand) if sign == "-" else Positive(operand)

    def exists(self, operand: Property) -> Expression:
        return Exists(operand)

    def function(self, name: Token, argument: Expression | None = None) -> Expression:
        lower = name.lower()
        if lower == "newid" and argument is None:
            return NewId()
        if lower in _PROPERTY_FUNCTIONS and argument is not None:
            return PropertyOf(argument)
        raise self._error(
            name,
            f"there is no function {name}({'' if argument is None else '...'})",
            "Use newid(), property(name) or p(name).",
        )

    def unscoped(self, name: str) -> Property:
        return UserProperty(name)

    def scoped(self, scope: Token, name: str) -> Property:
        if scope.lower() == "sys":
            return SystemProperty(name)
        if scope.lower() == "user":
            return UserProperty(name)
        raise self._error(
            scope,
            f"'{scope}' is not a scope",
            "Use sys.name or user.name, or [a.b] for a name with a point in it.",
        )

    def plain_name(self, name: Token) -> str:
        return str(name)

    def delimited_name(self, name: Token) -> str:
        return name[1:-1].replace("]]", "]")

    def quoted_name(self, name: Token) -> str:
        return name[1:-1].replace('""', '"')

    def parameter(self, name: Token) -> Expression:
        value = self._parameters.get(name[1:].lower())
        if value is None:
            given = ", ".join(f"@{one}" for one in self._parameters) or "none"
            raise self._error(
                name, f"the parameter {name} has no value", f"Given are: {given}."
            )
        return Constant(value.value)

    def integer(self, digits: Token) -> Expression:
        value = int(digits)
        if value > INTEGER_HIGHEST:
            raise self._error(
                digits,
                "the integer does not fit into 64 bits",
                f"The largest is {INTEGER_HIGHEST}; with a decimal point it is a "
                "double.",
            )
        return Constant(value)

    def double(self, digits: Token) -> Expression:
        value = float(digits)
        if math.isinf(value):
            raise self._error(
                digits, "the number is too large for a double", "Use a smaller one."
            )
        return Constant(value)

    def string(self, quoted: Token) -> Expression:
        return Constant(quoted[1:-1].replace("''", "'"))

    def true(self) -> Expression:
        return Constant(True)

    def false(self) -> Expression:
        return Constant(False)

    def null(self) -> Expression:
        return Constant(None)
