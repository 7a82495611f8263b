"""The action of a rule: SET and REMOVE statements that change a copy of a message.

Each statement sees the changes of those before it. The result is a list of changed
properties; the package `encoding` applies them to the message.
"""

from typing import Final, final

from twinbus.rules.expressions import Expression, Property, UserProperty
from twinbus.rules.filter_error import FilterError
from twinbus.rules.system_properties import SETTABLE, TEXTS
from twinbus.rules.text_work import TextWork
from twinbus.rules.typed_value import (
    TypedValue,
    double_text,
    duration_text,
    instant_text,
)
from twinbus.rules.values import MISSING, Duration, Instant
from twinbus.rules.view import MessageView

_SET_KINDS: Final = {
    "timetolive": (Duration, "a duration"),
    "scheduledenqueuetimeutc": (Instant, "a time"),
}


@final
class Statement:
    """`SET target = value`, or `REMOVE target` if there is no value."""

    def __init__(self, target: Property, value: Expression | None) -> None:
        self.target: Property = target
        self.value: Expression | None = value


@final
class SqlAction:
    """The statements of one rule, and their text."""

    def __init__(
        self, text: str, parameters: dict[str, TypedValue], statements: list[Statement]
    ) -> None:
        self.text: str = text
        self.parameters: dict[str, TypedValue] = parameters
        self.statements: list[Statement] = statements

    def changes(self, view: MessageView) -> "Changes":
        """The changes that they make to this message. Raises FilterError."""
        changes = Changes(view)
        for statement in self.statements:
            changes.execute(statement)
        return changes


@final
class Changes(MessageView):
    """A message after the statements executed so far, and what they changed."""

    def __init__(self, before: MessageView) -> None:
        self._before: MessageView = before
        # Changed system properties by canonical name; None: removed.
        self.system_changes: dict[str, object] = {}
        # Changed application properties by lower-case name; MISSING: removed.
        self.user_changes: dict[str, object] = {}
        # How to write the name of a new application property.
        self.spellings: dict[str, str] = {}

    def system(self, name: str) -> object:
        if name in self.system_changes:
            return self.system_changes[name]
        return self._before.system(name)

    def user(self, name: str) -> object:
        if name in self.user_changes:
            return self.user_changes[name]
        return self._before.user(name)

    def text_work(self) -> TextWork:
        return self._before.text_work()

    def entropy(self) -> bytes:
        return self._before.entropy()

    def execute(self, statement: Statement) -> None:
        """Raises FilterError."""
        target = statement.target
        value: object = MISSING
        if statement.value is not None:
            value = statement.value.evaluate(self)
        if isinstance(target, UserProperty):
            self._set_user(target, value)
        else:
            self._set_system(target.name, None if value is MISSING else value)

    def _set_user(self, target: UserProperty, value: object) -> None:
        name = target.name
        if value is not MISSING:
            value = converted(value, self.user(name))
        self.user_changes[name] = value
        self.spellings.setdefault(name, target.spelling)

    def _set_system(self, name: str, value: object) -> None:
        if name not in SETTABLE:
            raise FilterError(f"The system property 'sys.{name}' cannot be set.")
        if value is not None:
            value = _system_value(name, value)
        self.system_changes[name] = value


def _system_value(name: str, value: object) -> object:
    """The value in the property's type. Raises FilterError."""
    if name in TEXTS:
        return text_of(value)
    kind, wanted = _SET_KINDS[name]
    if isinstance(value, kind):
        return value
    raise FilterError(
        f"The system property 'sys.{name}' was set to {value!r}; it needs {wanted}."
    )


def converted(value: object, existing: object) -> object:
    """The value in the type of the one it replaces, if it can be converted exactly;
    otherwise unchanged."""
    if isinstance(existing, str):
        return value if value is None else text_of(value)
    if isinstance(existing, bool):
        return _to_boolean(value)
    if isinstance(existing, int):
        return _to_integer(value)
    if isinstance(existing, float):
        return _to_double(value)
    return value


def text_of(value: object) -> str:
    """A value as text, as in XML."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, Instant):
        return instant_text(value.at)
    if isinstance(value, Duration):
        return duration_text(value.ms)
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _to_boolean(value: object) -> object:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value


def _to_integer(value: object) -> object:
    try:
        if isinstance(value, str) and len(value) <= 20:
            return int(value)
        if isinstance(value, float) and int(value) == value:
            return int(value)
    except (ValueError, OverflowError):
        return value
    return value


def _to_double(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
