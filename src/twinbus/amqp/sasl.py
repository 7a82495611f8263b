"""SASL frames and the credentials of both roles (AMQP 1.0 part 5, 5.3).

All mechanisms here need one step: the init has everything, and no challenge follows.
.NET's client requires MSSBCBS, which proves nothing: the client authenticates
afterwards by putting a token to the $cbs node.
"""

from dataclasses import dataclass
from typing import Final

from twinbus.amqp.composite import (
    BINARY,
    STRING,
    SYMBOL,
    SYMBOLS,
    UBYTE,
    composite,
    decode_composite,
    encode_composite,
)
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.framing import SASL_FRAME, frame

MSSBCBS: Final = "MSSBCBS"
ANONYMOUS: Final = "ANONYMOUS"
PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"

SERVER_MECHANISMS: Final = (MSSBCBS, PLAIN, ANONYMOUS, EXTERNAL)

OUTCOME_OK: Final = 0
OUTCOME_AUTH: Final = 1


@composite(0x40, "amqp:sasl-mechanisms:list", sasl_server_mechanisms=SYMBOLS)
@dataclass(frozen=True, slots=True, kw_only=True)
class SaslMechanisms:
    sasl_server_mechanisms: tuple[str, ...]


@composite(
    0x41,
    "amqp:sasl-init:list",
    keeps_nulls=True,
    mechanism=SYMBOL,
    initial_response=BINARY,
    hostname=STRING,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class SaslInit:
    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


@composite(0x42, "amqp:sasl-challenge:list", challenge=BINARY)
@dataclass(frozen=True, slots=True, kw_only=True)
class SaslChallenge:
    challenge: bytes


@composite(0x43, "amqp:sasl-response:list", response=BINARY)
@dataclass(frozen=True, slots=True, kw_only=True)
class SaslResponse:
    response: bytes


@composite(
    0x44,
    "amqp:sasl-outcome:list",
    keeps_nulls=True,
    code=UBYTE,
    additional_data=BINARY,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class SaslOutcome:
    code: int
    additional_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class SaslCredentials:
    """The credentials of a client."""

    mechanism: str
    initial_response: bytes = b""


def anonymous() -> SaslCredentials:
    return SaslCredentials(ANONYMOUS)


def mssbcbs() -> SaslCredentials:
    return SaslCredentials(MSSBCBS)


def external() -> SaslCredentials:
    return SaslCredentials(EXTERNAL)


def plain(user: str, password: str) -> SaslCredentials:
    return SaslCredentials(PLAIN, f"\0{user}\0{password}".encode())


def parse_plain(initial_response: bytes) -> tuple[str, str]:
    """User and password of a PLAIN response (RFC 4616). Raises DecodeError."""
    parts = initial_response.split(b"\0")
    if len(parts) != 3:
        raise DecodeError("a PLAIN response has three parts")
    try:
        return parts[1].decode(), parts[2].decode()
    except UnicodeDecodeError:
        raise DecodeError("a PLAIN response is not UTF-8") from None


def sasl_frame(value: object) -> bytes:
    return frame(0, encode_composite(value), SASL_FRAME)


def decode_sasl(body: bytes) -> object:
    """Decode the body of a SASL frame. Raises DecodeError."""
    value, end = decode_composite(body, 0)
    if end != len(body):
        raise DecodeError("a SASL frame has a payload")
    return value
