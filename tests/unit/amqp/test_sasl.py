"""SASL frames and credentials."""

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.sasl import (
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    anonymous,
    decode_sasl,
    external,
    mssbcbs,
    parse_plain,
    plain,
    sasl_frame,
)


@pytest.mark.parametrize(
    "value",
    [
        SaslMechanisms(sasl_server_mechanisms=("PLAIN", "ANONYMOUS")),
        SaslInit(mechanism="PLAIN", initial_response=b"x", hostname="h"),
        SaslChallenge(challenge=b"c"),
        SaslResponse(response=b"r"),
        SaslOutcome(code=1),
    ],
)
def test_a_sasl_frame_comes_back_as_it_was(value: object) -> None:
    data = sasl_frame(value)
    assert data[4:8] == b"\x02\x01\x00\x00"
    assert decode_sasl(data[8:]) == value


def test_mechanisms_are_an_array_of_symbols() -> None:
    data = sasl_frame(SaslMechanisms(sasl_server_mechanisms=("PLAIN",)))
    assert b"\xe0\x08\x01\xa3\x05PLAIN" in data


def test_bytes_behind_a_sasl_frame_are_refused() -> None:
    with pytest.raises(DecodeError):
        decode_sasl(sasl_frame(SaslOutcome(code=0))[8:] + encode(None))


def test_plain_carries_user_and_password() -> None:
    assert parse_plain(plain("käy", "geheim").initial_response) == ("käy", "geheim")
    assert parse_plain(b"identity\0user\0password") == ("user", "password")


@pytest.mark.parametrize("response", [b"", b"a\0b", b"a\0b\0c\0d", b"\0\xff\0x"])
def test_malformed_plain_is_refused(response: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_plain(response)


def test_mechanisms_without_a_response() -> None:
    assert [c().mechanism for c in (anonymous, mssbcbs, external)] == [
        "ANONYMOUS",
        "MSSBCBS",
        "EXTERNAL",
    ]
