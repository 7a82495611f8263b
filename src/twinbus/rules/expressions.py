"""Expressions: trees that are built once per rule, and evaluated per message.

`evaluate` returns a value, or None for null and unknown. `may_fail` says whether it
could raise FilterError for some message: the index may skip only expressions that
cannot fail.
"""

from abc import abstractmethod
from typing import Final, final
from uuid import UUID

from twinbus.rules.arithmetic import calculate, negative
from twinbus.rules.filter_error import FilterError
from twinbus.rules.system_properties import NAMES, canonical_name
from twinbus.rules.values import MISSING
from twinbus.rules.view import MessageView

_COPY_SHIFT: Final = 8
"""Copying a few hundred characters counts as one step."""


class Expression:
    """A node of the tree."""

    @abstractmethod
    def evaluate(self, view: MessageView) -> object:
        """The value for this message. Raises FilterError."""

    @abstractmethod
    def parts(self) -> "list[Expression]":
        """The nodes directly below."""

    def may_fail(self) -> bool:
        """Whether `evaluate` could raise."""
        return any_may_fail(self.parts())


def any_may_fail(parts: list[Expression]) -> bool:
    for part in parts:
        if part.may_fail():
            return True
    return False


@final
class Constant(Expression):
    """A literal or a parameter."""

    def __init__(self, value: object) -> None:
        self.value: object = value

    def evaluate(self, view: MessageView) -> object:
        return self.value

    def parts(self) -> list[Expression]:
        return []


class Property(Expression):
    """A property of the message, of one of two kinds. Actions can set it."""

    def __init__(self, name: str) -> None:
        # In lower case: names are compared ignoring case.
        self.name: str = name

    def parts(self) -> list[Expression]:
        return []

    @abstractmethod
    def exists(self, view: MessageView) -> bool:
        """Whether the message has it, even if it is null."""


@final
class UserProperty(Property):
    """An application property."""

    def __init__(self, name: str) -> None:
        super().__init__(name.lower())
        # As written: used as its name if an action creates it.
        self.spelling: str = name

    def evaluate(self, view: MessageView) -> object:
        value = view.user(self.name)
        return None if value is MISSING else value

    def exists(self, view: MessageView) -> bool:
        return view.user(self.name) is not MISSING


@final
class SystemProperty(Property):
    """A property that every message has, set by its sender or by the bus."""

    def __init__(self, name: str) -> None:
        super().__init__(canonical_name(name))
        self._known: bool = self.name in NAMES

    def evaluate(self, view: MessageView) -> object:
        if not self._known:
            raise FilterError(f"A message has no system property 'sys.{self.name}'.")
        return view.system(self.name)

    def exists(self, view: MessageView) -> bool:
        return self.evaluate(view) is not None

    def may_fail(self) -> bool:
        return not self._known


@final
class PropertyOf(Expression):
    """`property(expression)`: the property whose name the expression gives."""

    def __init__(self, name: Expression) -> None:
        self._name: Expression = name

    def evaluate(self, view: MessageView) -> object:
        name = self._name.evaluate(view)
        if not isinstance(name, str):
            return None
        return property_named(name).evaluate(view)

    def parts(self) -> list[Expression]:
        return [self._name]

    def may_fail(self) -> bool:
        return True


def property_named(name: str) -> Property:
    """The property of this name, which may begin with `sys.` or `user.`."""
    scope, dot, rest = name.partition(".")
    if dot and scope.lower() == "sys":
        return SystemProperty(rest)
    if dot and scope.lower() == "user":
        return UserProperty(rest)
    return UserProperty(name)


@final
class NewId(Expression):
    """`newid()`: a new random UUID."""

    def evaluate(self, view: MessageView) -> object:
        return UUID(bytes=view.entropy(), version=4)

    def parts(self) -> list[Expression]:
        return []


@final
class Arithmetic(Expression):
    """`left operator right`, see arithmetic.py."""

    def __init__(self, operator: str, left: Expression, right: Expression) -> None:
        self._operator: str = operator
        self._left: Expression = left
        self._right: Expression = right

    def evaluate(self, view: MessageView) -> object:
        left = self._left.evaluate(view)
        value = calculate(self._operator, left, self._right.evaluate(view))
        if isinstance(value, str):
            view.text_work().spend(len(value) >> _COPY_SHIFT)
        return value

    def parts(self) -> list[Expression]:
        return [self._left, self._right]

    def may_fail(self) -> bool:
        return True


@final
class Negative(Expression):
    """Unary minus."""

    def __init__(self, operand: Expression) -> None:
        self._operand: Expression = operand

    def evaluate(self, view: MessageView) -> object:
        return negative(self._operand.evaluate(view))

    def parts(self) -> list[Expression]:
        return [self._operand]

    def may_fail(self) -> bool:
        return True


@final
class Positive(Expression):
    """Unary plus: the number itself, or null if it is not a number."""

    def __init__(self, operand: Expression) -> None:
        self._operand: Expression = operand

    def evaluate(self, view: MessageView) -> object:
        value = self._operand.evaluate(view)
        return None if negative(value) is None else value

    def parts(self) -> list[Expression]:
        return [self._operand]

    def may_fail(self) -> bool:
        return True
