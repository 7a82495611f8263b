"""Performatives: descriptors in any form, and the raw termini of an attach."""

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.errors import AmqpError, DecodeError
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.performatives import (
    Attach,
    decode_attach,
    decode_performative,
    error_of,
    read_descriptor,
)
from twinbus.amqp.types import Encoded, Symbol


@pytest.mark.parametrize(
    "descriptor",
    [b"\x53\x14", b"\x80" + bytes(7) + b"\x14", encode(Symbol("amqp:transfer:list"))],
)
def test_a_performative_is_known_by_number_and_by_name(descriptor: bytes) -> None:
    data = b"\x00" + descriptor + b"\x45"
    assert read_descriptor(data, 0) == (0x14, len(data) - 1)


@pytest.mark.parametrize("data", [b"", b"\x45", b"\x00\xa3\x01x\x45", b"\x00\xa1\x01x"])
def test_a_body_without_performative_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_descriptor(data, 0)


def test_an_attach_keeps_the_bytes_of_its_termini() -> None:
    # The peer's own way of writing: wide descriptor, wide list.
    source = bytes.fromhex("008000000000000000 28 d00000000700000001a10171")
    target = encode_composite(Target(address="t"))
    data = encode_composite(
        Attach(
            name="n",
            handle=0,
            role=True,
            source=Encoded(source),
            target=Encoded(target),
        )
    )
    attach, raw_source, raw_target = decode_attach(data[3:])
    assert (raw_source, raw_target) == (source, target)
    assert attach.source == Source(address="q")


def test_an_attach_without_termini_has_null_for_them() -> None:
    data = encode_composite(Attach(name="n", handle=0, role=True))
    _, raw_source, raw_target = decode_attach(data[3:])
    assert (raw_source, raw_target) == (b"\x40", b"\x40")


def test_a_performative_must_be_a_list() -> None:
    with pytest.raises(DecodeError):
        decode_performative(0x12, b"\xc1\x01\x00")


def test_only_a_proper_error_counts_as_one() -> None:
    assert error_of(AmqpError("a:b")) == AmqpError("a:b")
    assert error_of("text") is None
