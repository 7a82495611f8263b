"""Messages to send, given as JSON: checked, and encoded many at a time.

The form is that of `message_json.py`. What a bus sets is ignored, so that a received
message can be sent. Properties may also be JSON numbers and booleans: 7 is a long, 0.5
a double, true a boolean. `raw` is a whole message, and nothing else counts beside it.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from twinbus.amqp.encoder import NULL
from twinbus.cli.messages.message_json import ONLY_RAW, TEXTS
from twinbus.encoding.composing import MessageComposer
from twinbus.encoding.resending import resendable
from twinbus.encoding.typed_texts import TYPE_NAMES, encoded_value, text_of
from twinbus.errors import ServiceBusError
from twinbus.instants import instant_ms
from twinbus.limits import DURATION_MS_UNLIMITED

SENT: Final = (
    *TEXTS,
    *("time_to_live_ms", "scheduled_time", "application_properties"),
    *("application_property_types", "body", "body_base64", "amqp_types", "raw"),
)
OF_THE_BUS: Final = (
    *("sequence_number", "enqueued_time", "locked_until", "state", "size_bytes"),
    *("delivery_count", "expires_at", "entity", "lock_token"),
    *("dead_letter_source", "dead_letter_reason", "dead_letter_description"),
)
"""Fields that are ignored, because the next bus sets them."""

_KNOWN: Final = frozenset((*SENT, *OF_THE_BUS))
_TYPED: Final = ("message_id", "correlation_id", "body")
_VALUE: Final = "value:"
_IN_BASE64: Final = ("binary", "decimal32", "decimal64", "decimal128")

Draft = dict[str, Any]


class DraftError(ValueError):
    """This can't be a message; the text says why, without a full stop."""


def check_draft(draft: object) -> Draft:
    """Raises DraftError."""
    if not isinstance(draft, dict):
        raise DraftError("a message must be a JSON object")
    unknown = [name for name in draft if name not in _KNOWN]
    if unknown:
        raise DraftError(
            f"there is no field '{unknown[0][:60]}'; there are {', '.join(SENT)}"
        )
    if "body" in draft and "body_base64" in draft:
        raise DraftError("give body or body_base64, not both")
    return draft


def encoded_drafts(drafts: Sequence[Draft], now: int) -> list[bytes]:
    """The messages, encoded. Raises DraftError."""
    composer = MessageComposer(len(drafts))
    typed = _typed_values(drafts)
    for name in TEXTS:
        texts = [_utf8(name, draft.get(name)) for draft in drafts]
        if any(text is not None for text in texts) or typed.get(name):
            composer.add_text(name, texts, typed.get(name, {}))
    lives = [_time_to_live(draft.get("time_to_live_ms")) for draft in drafts]
    if any(lives):
        composer.add_time_to_live(lives, now)
    times = [_instant(draft.get("scheduled_time")) for draft in drafts]
    if any(at is not None for at in times):
        composer.add_scheduled_time(times)
    _add_properties(composer, drafts)
    composer.add_bodies([_body(draft) for draft in drafts], typed["body"])
    messages = composer.messages()
    for row, draft in enumerate(drafts):
        if draft.get("raw") is not None:
            messages[row] = _whole(draft["raw"])
    return messages


def property_of(text: str) -> tuple[str, str | None, str]:
    """Name, type and value of `NAME=VALUE` or `NAME=TYPE:VALUE`; the type is None for a
    string. Raises DraftError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise DraftError(
            f"'{text}' is not a property: write NAME=VALUE or NAME=TYPE:VALUE"
        )
    type_name, colon, rest = value.partition(":")
    if not colon or type_name not in TYPE_NAMES:
        return name, None, value
    try:
        encoded_value(type_name, rest)
    except ValueError as error:
        raise DraftError(
            f"the property '{name}' is '{rest}' and has the type {type_name}: {error}"
        ) from None
    return name, None if type_name == "string" else type_name, rest


def _utf8(name: str, value: object) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise DraftError(f"'{name}' must be a text")
    if name == "content_type" and not value.isascii():
        raise DraftError(f"'content_type' is '{value[:60]}'; it must be ASCII")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise DraftError(f"'{name}' is not valid Unicode") from None


def _time_to_live(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DraftError("'time_to_live_ms' must be a whole number of at least 1")
    return min(value, DURATION_MS_UNLIMITED)


def _instant(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        return instant_ms(datetime.fromisoformat(str(value)))
    except ValueError:
        raise DraftError(
            "'scheduled_time' must be a time in ISO 8601, or milliseconds since 1970"
        ) from None


def _body(draft: Draft) -> bytes | None:
    if draft.get("body_base64") is not None:
        return _bytes("body_base64", draft["body_base64"])
    return _utf8("body", draft.get("body"))


def _bytes(name: str, value: object) -> bytes:
    try:
        return b64decode(str(value), validate=True)
    except (NotBase64, ValueError):
        raise DraftError(f"'{name}' must be base64") from None


def _whole(value: object) -> bytes:
    try:
        return resendable(_bytes("raw", value))
    except ServiceBusError as error:
        raise DraftError(f"'raw' is not a message: {error.text}") from None


def _add_properties(composer: MessageComposer, drafts: Sequence[Draft]) -> None:
    keys: list[bytes] = []
    values: list[bytes] = []
    bounds: list[tuple[int, int]] = []
    for draft in drafts:
        start = len(keys)
        properties = draft.get("application_properties")
        if properties is not None:
            types = draft.get("application_property_types") or {}
            if not isinstance(properties, dict) or not isinstance(types, dict):
                raise DraftError(
                    "'application_properties' and 'application_property_types' must "
                    "be objects"
                )
            for name, value in properties.items():
                keys.append(_utf8(name, name) or b"")
                values.append(_property(name, value, types.get(name)))
        bounds.append((start, len(keys)))
    if keys:
        composer.add_application_properties(keys, values, bounds)


def _property(name: str, value: object, type_name: object) -> bytes:
    if isinstance(value, list | dict):
        raise DraftError(f"the property '{name}' must be a text, number or boolean")
    if type_name is None:
        type_name = _plain_type(value)
    try:
        return encoded_value(str(type_name), text_of(value))
    except ValueError as error:
        raise DraftError(
            f"the property '{name}' has the type {str(type_name)[:40]}: {error}"
        ) from None


def _plain_type(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long"
    return "double" if isinstance(value, float) else "string"


def _typed_values(drafts: Sequence[Draft]) -> dict[str, dict[int, bytes]]:
    """By field and row: encoded values of ids that are no strings, and of bodies that
    are no data."""
    found: dict[str, dict[int, bytes]] = {name: {} for name in _TYPED}
    for row, draft in enumerate(drafts):
        if not draft.get("amqp_types") or draft.get("raw") is not None:
            continue
        for name, type_name in draft["amqp_types"].items():
            if name not in _TYPED:
                raise DraftError(
                    f"'amqp_types' has a type of '{str(name)[:60]}'; it may have those "
                    f"of {', '.join(_TYPED)}"
                )
            try:
                if name == "body":
                    found[name][row] = _typed_body(str(type_name), _body(draft))
                else:
                    text = text_of(draft.get(name))
                    found[name][row] = encoded_value(str(type_name), text)
            except ValueError as error:
                raise DraftError(
                    f"'{name}' has the type '{str(type_name)[:40]}' in 'amqp_types': "
                    f"{error}"
                ) from None
    return found


def _typed_body(type_name: str, content: bytes | None) -> bytes:
    """An encoded AMQP value; empty for no body. Raises ValueError."""
    if type_name == "none":
        return b""
    if type_name in ONLY_RAW:
        raise ValueError("only 'raw' gives it back: receive with --raw")
    if type_name == f"{_VALUE}null" or content is None:
        return NULL
    if not type_name.startswith(_VALUE):
        raise ValueError(f"a body has {_VALUE}TYPE or none there")
    simple = type_name.removeprefix(_VALUE)
    if simple in _IN_BASE64:
        return encoded_value(simple, b64encode(content).decode())
    return encoded_value(simple, content.decode())
