"""Application properties of a message as headers of HTTP.

    Priority: "High"     a text, written as in JSON
    Count: 3             a whole number
    Ratio: 0.5           another number
    Urgent: true         true or false
    Nothing: null        null
    Region: north        anything else is a text, too

Headers that belong to HTTP are not properties. Of a received message, properties whose
names cannot be headers are in one header of their own, as JSON.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from twinbus.amqp.types import Int, Timestamp
from twinbus.doors.http.messaging.broker_properties import HEADER as BROKER_PROPERTIES
from twinbus.doors.http.messaging.http_times import http_time
from twinbus.errors import ArgumentError, ArgumentOutOfRange

OTHER_PROPERTIES: Final = "x-twinbus-properties"
BODY_KIND: Final = "x-twinbus-body"

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A name that a header can have (RFC 9110 5.6.2)."""

_WHOLE: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_WORDS: Final = {"true": True, "false": False, "null": None}

_OF_HTTP: Final = frozenset(
    (
        *("accept", "accept-charset", "accept-encoding", "accept-language", "age"),
        *("allow", "authorization", "cache-control", "connection", "content-encoding"),
        *("content-language", "content-length", "content-location", "content-range"),
        *("content-type", "cookie", "date", "etag", "expect", "forwarded", "from"),
        *("host", "http2-settings", "if-match", "if-modified-since", "if-none-match"),
        *("if-range", "if-unmodified-since", "keep-alive", "last-modified", "location"),
        *("max-forwards", "origin", "pragma", "proxy-authenticate"),
        *("proxy-authorization", "proxy-connection", "range", "referer"),
        *("retry-after", "server", "set-cookie", "strict-transport-security", "te"),
        *("trailer", "transfer-encoding", "upgrade", "user-agent", "vary", "via"),
        *("www-authenticate", "x-forwarded-for", "x-forwarded-host"),
        *("x-forwarded-proto", "x-real-ip", "x-twinbus-body", "x-twinbus-properties"),
        BROKER_PROPERTIES,
    )
)

_INT: Final = 1 << 31
_LONG: Final = 1 << 63


def read_properties(
    headers: Mapping[str, str], names: Mapping[str, str]
) -> dict[object, object]:
    """Application properties, by name as it was written. Raises ArgumentOutOfRange."""
    return {
        names.get(name, name): _read(name, value)
        for name, value in headers.items()
        if name not in _OF_HTTP
    }


def _read(name: str, value: str) -> object:
    if value in _WORDS:
        return _WORDS[value]
    if _WHOLE.fullmatch(value):
        return whole_number(int(value), name)
    if _NUMBER.fullmatch(value):
        return float(value)
    return _read_text(_utf8(value))


def _read_text(value: str) -> str:
    if len(value) < 2 or value[0] != '"' or value[-1] != '"':
        return value
    try:
        text = json.loads(value)
    except ValueError:
        # Written by somebody who quotes but does not escape.
        return value[1:-1]
    return text if isinstance(text, str) else value


def _utf8(value: str) -> str:
    """Headers are read as Latin-1; most clients write UTF-8."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def whole_number(number: int, name: str) -> int:
    """An AMQP int if it fits, or a long. Raises ArgumentOutOfRange."""
    if -_INT <= number < _INT:
        return Int(number)
    if not -_LONG <= number < _LONG:
        raise ArgumentOutOfRange.measured(
            name, value=number, lowest=-_LONG, highest=_LONG - 1
        )
    return number


def read_json_properties(content: Mapping[str, object]) -> dict[object, object]:
    """Application properties of a message in a batch. Raises ArgumentError,
    ArgumentOutOfRange."""
    return {name: _from_json(name, value) for name, value in content.items()}


def _from_json(name: str, value: object) -> object:
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        return whole_number(value, name)
    raise ArgumentError.about(
        name, value=str(value)[:60], expected="a text, a number, true, false or null"
    )


def property_headers(properties: Mapping[object, object]) -> dict[str, str]:
    """The headers of a received message, by name as its sender wrote it."""
    headers: dict[str, str] = {}
    others: dict[str, object] = {}
    for key, value in properties.items():
        name = str(key)
        if _TOKEN.fullmatch(name) and name.lower() not in _OF_HTTP:
            headers[name] = json.dumps(plain_value(value))
        else:
            others[name] = plain_value(value)
    if others:
        headers[OTHER_PROPERTIES] = json.dumps(others)
    return headers


def plain_value(value: object) -> object:
    """An AMQP value as JSON can have it."""
    if isinstance(value, Timestamp):
        return http_time(value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        # JSON has neither infinity nor NaN.
        return value if value - value == 0 else str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, list):
        return [plain_value(one) for one in value]
    if isinstance(value, dict):
        return {_key(key): plain_value(one) for key, one in value.items()}
    return str(value)


def _key(key: object) -> str:
    plain = plain_value(key)
    return plain if isinstance(plain, str) else json.dumps(plain)
