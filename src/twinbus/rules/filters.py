"""The four kinds of filters, as values.

A SQL filter keeps its text and parameters beside the parsed predicate, because clients
read a rule back as it was written. A correlation filter is a set of properties that
must all be equal, including their type.
"""

from abc import abstractmethod
from typing import Final, final

from twinbus.rules.expressions import Expression
from twinbus.rules.predicates import is_selected
from twinbus.rules.typed_value import TypedValue
from twinbus.rules.values import identity_key
from twinbus.rules.view import MessageView

CORRELATION_FIELDS: Final = (
    *("correlation_id", "message_id", "to", "reply_to", "label", "session_id"),
    *("reply_to_session_id", "content_type"),
)
"""Fields that a correlation filter may have besides application properties, in their
order on the wire."""


class Filter:
    """One of the kinds below."""

    @abstractmethod
    def selects(self, view: MessageView) -> bool:
        """Whether the message passes. Raises FilterError."""


@final
class TrueFilter(Filter):
    """Every message."""

    def selects(self, view: MessageView) -> bool:
        return True


@final
class FalseFilter(Filter):
    """No message."""

    def selects(self, view: MessageView) -> bool:
        return False


@final
class SqlFilter(Filter):
    """The messages for which a predicate is true."""

    def __init__(
        self, text: str, parameters: dict[str, TypedValue], predicate: Expression
    ) -> None:
        self.text: str = text
        # By name as given, which may begin with `@`.
        self.parameters: dict[str, TypedValue] = parameters
        self.predicate: Expression = predicate

    def selects(self, view: MessageView) -> bool:
        return is_selected(self.predicate, view)


@final
class CorrelationFilter(Filter):
    """The messages whose properties all equal the given ones; at least one is given."""

    def __init__(
        self, fields: dict[str, str], properties: dict[str, TypedValue]
    ) -> None:
        # By name of CORRELATION_FIELDS.
        self.fields: dict[str, str] = fields
        # Application properties, by name as given.
        self.properties: dict[str, TypedValue] = properties
        # Names and values, sorted, so that filters on the same names share a table.
        wanted = _wanted(fields, properties)
        self.system_names: tuple[str, ...] = tuple(wanted[0])
        self.user_names: tuple[str, ...] = tuple(wanted[1])
        self.key: tuple[object, ...] = tuple(wanted[0].values()) + tuple(
            wanted[1].values()
        )

    def selects(self, view: MessageView) -> bool:
        return correlation_key(self.system_names, self.user_names, view) == self.key


def _wanted(
    fields: dict[str, str], properties: dict[str, TypedValue]
) -> tuple[dict[str, object], dict[str, object]]:
    """System and user properties with their keys, sorted by name."""
    system: dict[str, object] = {
        name.replace("_", ""): fields[name] for name in sorted(fields)
    }
    lower = {name.lower(): value for name, value in properties.items()}
    user: dict[str, object] = {
        name: identity_key(lower[name].value) for name in sorted(lower)
    }
    return system, user


def correlation_key(
    system_names: tuple[str, ...], user_names: tuple[str, ...], view: MessageView
) -> tuple[object, ...] | None:
    """The message's values of these properties; None if it lacks one of them."""
    key: list[object] = []
    for name in system_names:
        value = identity_key(view.system(name))
        if value is None:
            return None
        key.append(value)
    for name in user_names:
        value = identity_key(view.user(name))
        if value is None:
            return None
        key.append(value)
    return tuple(key)
