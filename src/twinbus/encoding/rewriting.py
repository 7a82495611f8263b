"""The copy of a message that a rule's action makes.

Sections that an action changes are built again entry by entry; other entries keep their
bytes, and so their exact types. The body is copied without reading it. The application
property `RuleName` of the copy names the rule.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Final

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.encoder import encode_list
from twinbus.amqp.errors import DecodeError, LocalError
from twinbus.amqp.types import Symbol
from twinbus.broker.message import Annex, Message
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import (
    APPLICATION_PROPERTIES,
    IDENTIFIED,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    bare_offset,
)
from twinbus.encoding.maps import changed_map
from twinbus.encoding.message_view import (
    ANNOTATION_KEYS,
    PROPERTY_FIELDS,
    EncodedView,
)
from twinbus.encoding.rule_values import amqp_value
from twinbus.errors import ServiceBusError
from twinbus.limits import DURATION_MS_UNLIMITED, MESSAGE_ID_CHARACTERS
from twinbus.rules.action import Changes
from twinbus.rules.filter_error import FilterError
from twinbus.rules.rule import Rule
from twinbus.rules.values import MISSING, Duration

RULE_NAME: Final = "RuleName"

_LIMITED: Final = ("messageid", "sessionid", "partitionkey", "viapartitionkey")
_NULL: Final = b"\x40"


def rewritten(message: Message, rule: Rule, view: EncodedView) -> Message:
    """A copy of the message as the rule's action changes it; it is not in a fragment
    yet. Raises FilterError if the action fails for this message."""
    assert rule.action is not None and view.message is message
    changes = rule.action.changes(view)
    _check_lengths(changes)
    try:
        encoded = _encoded(view, changes, rule.name)
        copy = read_message(encoded, message.layout & IDENTIFIED)
    except (ServiceBusError, LocalError) as error:
        raise FilterError(
            f"The action of rule '{rule.name}' makes an invalid message: {error}"
        ) from None
    copy.ttl_ms = _ttl_ms(message, changes)
    # An action that sets this time does not change when the message becomes active.
    copy.scheduled_at = message.scheduled_at
    copy.annex = _annex(message.annex, changes)
    return copy


def _check_lengths(changes: Changes) -> None:
    for name in _LIMITED:
        value = changes.system_changes.get(name)
        if isinstance(value, str) and len(value) > MESSAGE_ID_CHARACTERS:
            raise FilterError(
                f"'sys.{name}' was set to {len(value)} characters; at most "
                f"{MESSAGE_ID_CHARACTERS} are allowed."
            )


def _ttl_ms(message: Message, changes: Changes) -> int:
    if "timetolive" not in changes.system_changes:
        return message.ttl_ms
    value = changes.system_changes["timetolive"]
    if not isinstance(value, Duration) or value.ms >= DURATION_MS_UNLIMITED:
        return 0
    if value.ms <= 0:
        raise FilterError(f"'sys.TimeToLive' was set to {value.ms} ms; it must be > 0.")
    return value.ms


def _encoded(view: EncodedView, changes: Changes, rule_name: str) -> bytes:
    raw = view.message.raw
    sections = view.sections()
    bare_at = bare_offset(view.message.layout)
    before_at = bare_at
    if MESSAGE_ANNOTATIONS in sections:
        before_at = sections[MESSAGE_ANNOTATIONS][0] - 3
    body_at = bare_at
    for code in (PROPERTIES, APPLICATION_PROPERTIES):
        if code in sections:
            body_at = sections[code][1]
    return b"".join(
        (
            raw[:before_at],
            _annotations(view, changes),
            _properties(view, changes),
            b"\x00\x53\x74",
            _application_properties(view, changes, rule_name),
            raw[body_at:],
        )
    )


def _section(view: EncodedView, code: int) -> bytes:
    start, end = view.sections().get(code, (0, 0))
    return view.message.raw[start:end]


def _annotations(view: EncodedView, changes: Changes) -> bytes:
    """The section of message annotations, or nothing."""
    encoded = _section(view, MESSAGE_ANNOTATIONS)
    drop: list[bytes] = []
    add: dict[bytes, bytes] = {}
    for name, key in ANNOTATION_KEYS.items():
        if name in changes.system_changes:
            drop.append(key.encode())
            value = changes.system_changes[name]
            if value is not None:
                add[encode(Symbol(key))] = encode(amqp_value(value, None))
    if drop:
        encoded = changed_map(encoded, drop, add)
    return b"\x00\x53\x72" + encoded if encoded else b""


def _properties(view: EncodedView, changes: Changes) -> bytes:
    """The section of properties, or nothing."""
    raw = view.message.raw
    offsets = view.field_offsets()
    fields = [raw[at:end] for at, end in pairwise(offsets)]
    changed = False
    for name, index in PROPERTY_FIELDS.items():
        if name not in changes.system_changes:
            continue
        changed = True
        fields += [_NULL] * (index + 1 - len(fields))
        fields[index] = _encoded_field(name, changes.system_changes[name])
    encoded = encode_list(fields) if changed else _section(view, PROPERTIES)
    return b"\x00\x53\x73" + encoded if encoded else b""


def _encoded_field(name: str, value: object) -> bytes:
    if name == "contenttype" and isinstance(value, str):
        if not value.isascii():
            raise FilterError(f"'sys.ContentType' was set to {value!r}: not ASCII.")
        return encode(Symbol(value))
    return encode(value)


def _application_properties(
    view: EncodedView, changes: Changes, rule_name: str
) -> bytes:
    raw = view.message.raw
    drop = [RULE_NAME.encode()]
    add: dict[bytes, bytes] = {}
    for name, value in changes.user_changes.items():
        place = view.application().get(name)
        key = encode(changes.spellings[name])
        existing: object = None
        if place is not None:
            key = raw[place[0] : place[1]]
            drop.append(str(decode(raw, place[0])[0]).encode())
            existing = _decoded(raw, place[1])
        if value is not MISSING:
            add[key] = encode(amqp_value(value, existing))
    add[encode(RULE_NAME)] = encode(rule_name)
    return changed_map(_section(view, APPLICATION_PROPERTIES), drop, add)


def _decoded(raw: bytes, at: int) -> object:
    try:
        return decode(raw, at)[0]
    except DecodeError:
        return None


def _annex(annex: Annex | None, changes: Changes) -> Annex | None:
    """What the bus keeps beside the bytes, without what the action changed."""
    if annex is None:
        return None
    changed = changes.user_changes
    kept = {
        name: value
        for name, value in annex.modified.items()
        if name.lower() not in changed and name != RULE_NAME
    }
    reason = annex.dead_letter_reason
    description = annex.dead_letter_description
    return replace(
        annex,
        modified=kept,
        dead_letter_reason=None if "deadletterreason" in changed else reason,
        dead_letter_description=(
            None if "deadlettererrordescription" in changed else description
        ),
    )
