"""Errors have their condition, and are encoded with three fields."""

from twinbus.amqp.composite import encode_composite, from_described
from twinbus.amqp.decoder import decode
from twinbus.amqp.errors import (
    AmqpError,
    DecodeError,
    FramingError,
    ProtocolError,
    SessionError,
)
from twinbus.amqp.performatives import Detach
from twinbus.amqp.types import Described, Symbol


def fields_of(error: AmqpError) -> list[object]:
    described, _ = decode(encode_composite(error), 0)
    assert isinstance(described, Described)
    assert isinstance(described.value, list)
    return described.value


def test_an_error_always_has_three_fields() -> None:
    assert fields_of(AmqpError("amqp:not-found")) == ["amqp:not-found", "", None]
    full = AmqpError("x:y", "why", {"a": 1})
    assert fields_of(full) == ["x:y", "why", {"a": 1}]
    assert isinstance(fields_of(full)[0], Symbol)


def test_an_error_inside_a_detach_has_three_fields() -> None:
    detach = Detach(handle=0, closed=True, error=AmqpError("amqp:not-found"))
    described, _ = decode(encode_composite(detach), 0)
    assert isinstance(described, Described)
    assert isinstance(described.value, list)
    error = described.value[2]
    assert isinstance(error, Described)
    assert isinstance(error.value, list)
    assert len(error.value) == 3


def test_an_error_with_fewer_fields_is_understood() -> None:
    peer = Described(Symbol("amqp:error:list"), [Symbol("a:b")])
    assert from_described(peer) == AmqpError("a:b")


def test_errors_say_their_condition() -> None:
    assert DecodeError("x").error == AmqpError("amqp:decode-error", "x")
    assert FramingError("x").condition == "amqp:connection:framing-error"
    assert str(AmqpError("a:b", "c")) == "a:b: c"
    assert isinstance(SessionError("a:b", "c"), ProtocolError)
