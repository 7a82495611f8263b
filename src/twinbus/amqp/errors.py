"""Errors of the engine, by who caused them.

ProtocolError and its subclasses are raised if the peer broke the protocol; the engine
turns them into a close, end or detach frame, and the shell never sees them. LocalError
is raised to our own caller for misuse of the engine. AmqpError is a value: the error in
a close, end, detach or rejected.
"""

from dataclasses import dataclass
from typing import Final

INTERNAL_ERROR: Final = "amqp:internal-error"
DECODE_ERROR: Final = "amqp:decode-error"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_ALLOWED: Final = "amqp:not-allowed"
NOT_FOUND: Final = "amqp:not-found"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
ILLEGAL_STATE: Final = "amqp:illegal-state"
CONNECTION_FORCED: Final = "amqp:connection:forced"
FRAMING_ERROR: Final = "amqp:connection:framing-error"
UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"


@dataclass(frozen=True, slots=True)
class AmqpError:
    """An error as a value (AMQP 1.0 part 2, 2.8.14); encoded with all three fields."""

    condition: str
    description: str = ""
    info: dict[object, object] | None = None

    def __str__(self) -> str:
        return f"{self.condition}: {self.description}"


class LocalError(Exception):
    """Our own side did something that the protocol or the state does not allow."""


class ProtocolError(Exception):
    """The peer broke the protocol; the connection cannot continue."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description

    @property
    def error(self) -> AmqpError:
        return AmqpError(self.condition, self.description)


class DecodeError(ProtocolError):
    """Bytes that are not a value of the AMQP type system."""

    def __init__(self, description: str) -> None:
        super().__init__(DECODE_ERROR, description)


class FramingError(ProtocolError):
    """Bytes that are not a frame, or a frame that is too large."""

    def __init__(self, description: str) -> None:
        super().__init__(FRAMING_ERROR, description)


class SessionError(ProtocolError):
    """The peer broke the rules of one session; only that session is ended."""
