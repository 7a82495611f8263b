"""Predicates: expressions that are true, false or, as None, unknown.

AND and OR are evaluated from left to right and stop when the result is certain. They
have any number of operands, so that a long chain is not a deep tree. A value that is
not a boolean counts as unknown. Only true selects a message.
"""

from typing import Final, final

from twinbus.rules.expressions import Constant, Expression, Property, any_may_fail
from twinbus.rules.filter_error import FilterError
from twinbus.rules.like import LikePattern
from twinbus.rules.values import EQUAL, GREATER, LESS, UNKNOWN, UNORDERED, compare
from twinbus.rules.view import MessageView

EQUALS: Final = "="
DIFFERS: Final = "<>"

_STEPS_PER_CHARACTER: Final = 4
"""Cost of parsing a pattern that comes from a message."""


def is_selected(predicate: Expression, view: MessageView) -> bool:
    """Whether the predicate is true of the message. Raises FilterError."""
    return predicate.evaluate(view) is True


@final
class AllOf(Expression):
    """AND: false wins over unknown."""

    def __init__(self, operands: list[Expression]) -> None:
        self.operands: list[Expression] = operands

    def evaluate(self, view: MessageView) -> object:
        outcome: object = True
        for operand in self.operands:
            value = operand.evaluate(view)
            if value is False:
                return False
            if value is not True:
                outcome = None
        return outcome

    def parts(self) -> list[Expression]:
        return self.operands


@final
class AnyOf(Expression):
    """OR: true wins over unknown."""

    def __init__(self, operands: list[Expression]) -> None:
        self.operands: list[Expression] = operands

    def evaluate(self, view: MessageView) -> object:
        outcome: object = False
        for operand in self.operands:
            value = operand.evaluate(view)
            if value is True:
                return True
            if value is not False:
                outcome = None
        return outcome

    def parts(self) -> list[Expression]:
        return self.operands


@final
class Not(Expression):
    """NOT: unknown stays unknown."""

    def __init__(self, operand: Expression) -> None:
        self._operand: Expression = operand

    def evaluate(self, view: MessageView) -> object:
        value = self._operand.evaluate(view)
        if value is True:
            return False
        return True if value is False else None

    def parts(self) -> list[Expression]:
        return [self._operand]


@final
class Comparison(Expression):
    """`left operator right` with one of `= <> < <= > >=`."""

    def __init__(self, operator: str, left: Expression, right: Expression) -> None:
        self.operator: str = operator
        self.left: Expression = left
        self.right: Expression = right

    def evaluate(self, view: MessageView) -> object:
        left = self.left.evaluate(view)
        found = compare(left, self.right.evaluate(view))
        if found == UNKNOWN:
            return None
        if self.operator == EQUALS:
            return found == EQUAL
        if self.operator == DIFFERS:
            return found != EQUAL
        return _ordered(self.operator, found)

    def parts(self) -> list[Expression]:
        return [self.left, self.right]


def _ordered(operator: str, found: int) -> object:
    if found == LESS:
        return operator == "<" or operator == "<="
    if found == GREATER:
        return operator == ">" or operator == ">="
    if found == EQUAL:
        return operator == "<=" or operator == ">="
    # With NaN every order is false, as in C#; booleans, binaries, UUIDs have none.
    return False if found == UNORDERED else None


@final
class IsNull(Expression):
    """`expression IS NULL`: never unknown."""

    def __init__(self, operand: Expression) -> None:
        self._operand: Expression = operand

    def evaluate(self, view: MessageView) -> object:
        return self._operand.evaluate(view) is None

    def parts(self) -> list[Expression]:
        return [self._operand]


@final
class Exists(Expression):
    """`EXISTS (property)`: true if the message has the property, even if it is null."""

    def __init__(self, operand: Property) -> None:
        self._operand: Property = operand

    def evaluate(self, view: MessageView) -> object:
        return self._operand.exists(view)

    def parts(self) -> list[Expression]:
        return [self._operand]


@final
class In(Expression):
    """`operand IN (candidates)`: unknown if the operand is; a candidate of another type
    is not equal to it."""

    def __init__(self, operand: Expression, candidates: list[Expression]) -> None:
        self._operand: Expression = operand
        self._candidates: list[Expression] = candidates

    def evaluate(self, view: MessageView) -> object:
        value = self._operand.evaluate(view)
        if value is None:
            return None
        for candidate in self._candidates:
            if compare(value, candidate.evaluate(view)) == EQUAL:
                return True
        return False

    def parts(self) -> list[Expression]:
        return [self._operand, *self._candidates]


@final
class Like(Expression):
    """`operand LIKE pattern [ESCAPE escape]`: unknown if one of them is not a string,
    or the escape is not one character."""

    def __init__(
        self, operand: Expression, pattern: Expression, escape: Expression | None
    ) -> None:
        self._operand: Expression = operand
        self._pattern: Expression = pattern
        self._escape: Expression | None = escape
        # The parsed pattern, if it is the same for all messages.
        self._fixed: LikePattern | None = _fixed_pattern(pattern, escape)

    def evaluate(self, view: MessageView) -> object:
        text = self._operand.evaluate(view)
        if not isinstance(text, str):
            return None
        pattern = self._fixed or self._pattern_for(view)
        return None if pattern is None else pattern.matches(text, view.text_work())

    def _pattern_for(self, view: MessageView) -> LikePattern | None:
        escape: object = ""
        if self._escape is not None:
            escape = self._escape.evaluate(view)
        pattern = self._pattern.evaluate(view)
        if isinstance(pattern, str):
            view.text_work().spend(_STEPS_PER_CHARACTER * len(pattern))
        return _pattern_of(pattern, escape, self._escape is not None)

    def parts(self) -> list[Expression]:
        parts = [self._operand, self._pattern]
        return parts if self._escape is None else [*parts, self._escape]

    def may_fail(self) -> bool:
        return self._fixed is None or any_may_fail(self.parts())


def _fixed_pattern(
    pattern: Expression, escape: Expression | None
) -> LikePattern | None:
    if not isinstance(pattern, Constant):
        return None
    try:
        if escape is None:
            return _pattern_of(pattern.value, "", False)
        if isinstance(escape, Constant):
            return _pattern_of(pattern.value, escape.value, True)
    except FilterError:
        # Too long: it fails when evaluated, like a pattern from a message.
        pass
    return None


def _pattern_of(pattern: object, escape: object, escaped: bool) -> LikePattern | None:
    """None if it is not a pattern, or the escape is not one character."""
    if not isinstance(pattern, str) or not isinstance(escape, str):
        return None
    if escaped and len(escape) != 1:
        return None
    return LikePattern(pattern, escape)
