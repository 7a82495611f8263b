"""Converts descriptions to and from XML, by the tables of `description_fields.py`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.doors.http.administration.access_rules_xml import (
    read_access_rules,
    write_access_rules,
)
from twinbus.doors.http.administration.description_fields import (
    CLEARED_BY_ABSENCE,
    Field,
    FieldKind,
)
from twinbus.doors.http.administration.xml_reading import XmlElement
from twinbus.doors.http.administration.xml_writing import (
    boolean,
    description,
    element,
    instant,
    parent,
)
from twinbus.durations import duration_ms, iso_duration
from twinbus.entities.entity import Entity
from twinbus.entities.message_counts import MessageCounts
from twinbus.errors import ArgumentError

_COUNTS_NAMESPACE: Final = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
_NUMBER_DIGITS: Final = 18


def write_description(
    name: str,
    fields: Sequence[Field],
    entity: Entity,
    properties: Any,
    more: Mapping[str, str],
) -> str:
    """The description of an entity; `more` has texts of read-only elements."""
    written = []
    for field in fields:
        if field.property:
            value = getattr(properties, field.property)
            written.append(_written(field, value, entity))
        elif field.element == "CountDetails":
            written.append(_count_details(entity.counts()))
        else:
            text = more.get(field.element) or _read_only(field.element, entity)
            written.append(element(field.element, text))
    return description(name, written)


def _written(field: Field, value: Any, entity: Entity) -> str:
    if field.kind is FieldKind.ACCESS_RULES:
        return write_access_rules(value, entity.created_at, entity.updated_at)
    if field.kind is FieldKind.DURATION:
        return element(field.element, iso_duration(value))
    if field.kind is FieldKind.BOOLEAN:
        return element(field.element, boolean(value))
    # The service leaves out empty texts.
    return element(field.element, str(value)) if value != "" else ""


def _read_only(name: str, entity: Entity) -> str:
    texts = {
        "MessageCount": str(entity.counts().total),
        "IsAnonymousAccessible": "false",
        "CreatedAt": instant(entity.created_at),
        "UpdatedAt": instant(entity.updated_at),
        "AccessedAt": instant(entity.accessed_at),
        "SupportOrdering": "true",
        "EntityAvailabilityStatus": _availability(entity),
    }
    return texts[name]


def _availability(entity: Entity) -> str:
    """While a message store is away, its fragments are, and their messages."""
    return "Available" if entity.is_available() else "Limited"


def _count_details(counts: MessageCounts) -> str:
    """JavaScript requires exactly one attribute, and this use of its prefix."""
    children = (
        element("d2p1:ActiveMessageCount", str(counts.active))
        + element("d2p1:DeadLetterMessageCount", str(counts.dead_letter))
        + element("d2p1:ScheduledMessageCount", str(counts.scheduled))
        + element("d2p1:TransferMessageCount", str(counts.transfer))
        + element(
            "d2p1:TransferDeadLetterMessageCount", str(counts.transfer_dead_letter)
        )
    )
    return parent("CountDetails", children, f' xmlns:d2p1="{_COUNTS_NAMESPACE}"')


def read_properties(
    content: XmlElement,
    fields: Sequence[Field],
    path: str,
    *,
    is_update: bool,
    new_key: Callable[[], str],
) -> dict[str, Any]:
    """The properties that the element sets. Raises ArgumentError."""
    properties: dict[str, Any] = {}
    for field in fields:
        child = content.child(field.element)
        if not field.property:
            continue
        if child is not None:
            properties[field.property] = _read(field, child, path, new_key)
        elif is_update and field.element in CLEARED_BY_ABSENCE:
            properties[field.property] = ""
    return properties


def _read(
    field: Field, child: XmlElement, path: str, new_key: Callable[[], str]
) -> str | int | bool | list[AccessRule]:
    if field.kind is FieldKind.ACCESS_RULES:
        return read_access_rules(child, path, new_key)
    text = child.text.strip()
    try:
        return _READERS[field.kind](text)
    except ValueError as error:
        raise ArgumentError(
            f"'{field.element}' of '{path}' is not valid: {error}.", entity_path=path
        ) from None


def _number(text: str) -> int:
    if (
        not (text.isascii() and text.removeprefix("-").isdigit())
        or len(text) > _NUMBER_DIGITS
    ):
        raise ValueError(f"{text[:50]!r} is not a whole number")
    return int(text)


def _boolean(text: str) -> bool:
    lower = text.lower()
    if lower not in ("true", "false", "1", "0"):
        raise ValueError(f"{text[:50]!r} is neither true nor false")
    return lower in ("true", "1")


_READERS: Final[dict[FieldKind, Callable[[str], str | int | bool]]] = {
    FieldKind.TEXT: str,
    FieldKind.NUMBER: _number,
    FieldKind.BOOLEAN: _boolean,
    FieldKind.DURATION: duration_ms,
}
