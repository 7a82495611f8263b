"""Reads values of AMQP requests, and checks their types and bounds."""

from typing import Any, Final

from twinbus.amqp.types import AmqpArray
from twinbus.doors.amqp.request_links import Request
from twinbus.errors import ArgumentError, ArgumentOutOfRange
from twinbus.limits import SEQUENCE_NUMBERS_PER_REQUEST

MAX_INT: Final = (1 << 31) - 1
MAX_LONG: Final = (1 << 63) - 1


def array_items(value: Any, name: str) -> list[Any]:
    """The items of an AMQP array or list. Raises ArgumentError."""
    items = value.items if isinstance(value, AmqpArray) else value
    if not isinstance(items, list | tuple) or not items:
        raise ArgumentError(f"'{name}' must be an array with at least one item.")
    if len(items) > SEQUENCE_NUMBERS_PER_REQUEST:
        raise ArgumentOutOfRange(
            f"'{name}' has {len(items)} items; at most "
            f"{SEQUENCE_NUMBERS_PER_REQUEST} are allowed."
        )
    return list(items)


def integer(value: Any, name: str, low: int, high: int) -> int:
    """A whole number of any width. Raises ArgumentError, ArgumentOutOfRange."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(f"'{name}' must be a whole number.")
    if not low <= value <= high:
        raise ArgumentOutOfRange(
            f"'{name}' is {int(value)}; it must be from {low} to {high}."
        )
    return int(value)


def session_of(request: Request) -> str | None:
    """The session that a request is about, if it names one. Raises ArgumentError."""
    session_id = request.optional("session-id")
    if session_id is None:
        return None
    if not isinstance(session_id, str):
        raise ArgumentError("'session-id' must be a string.")
    return str(session_id)


def named_session(request: Request) -> str:
    """The session that a request must name. Raises ArgumentError."""
    request.argument("session-id")
    session_id = session_of(request)
    assert session_id is not None
    return session_id


def text_argument(request: Request, name: str) -> str:
    """A text that a request must give. Raises ArgumentError."""
    value = request.argument(name)
    if not isinstance(value, str):
        raise ArgumentError(f"'{name}' must be a string.")
    return value
