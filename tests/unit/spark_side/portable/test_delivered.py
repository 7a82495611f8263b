"""Messages as namespaces deliver them."""

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.types import Described, Int, Symbol, Timestamp, UInt, ULong
from twinbus.broker.message import ACTIVE, DEFERRED
from twinbus.spark.portable.delivered import MARK, Delivered

HEADER, ANNOTATIONS, PROPERTIES, TEXTS, DATA = 0x70, 0x72, 0x73, 0x74, 0x75


def section(code: int, value: object) -> bytes:
    return bytes((0, 0x53, code)) + encode(value)


def delivery(*sections: bytes, **annotations: object) -> bytes:
    named = {
        Symbol(f"x-opt-{name.replace('_', '-')}"): value
        for name, value in annotations.items()
    }
    return b"".join((section(ANNOTATIONS, named), *sections, section(DATA, b"body")))


NUMBERED = {"sequence_number": 7, "enqueued_time": Timestamp(5_000)}


def test_a_message_without_a_state_is_active() -> None:
    found = Delivered(delivery(**NUMBERED))
    assert (found.number, found.state, found.mark) == (7, ACTIVE, None)
    assert found.enqueued_at == 5_000 and found.session_id is None


def test_the_mark_is_taken_out() -> None:
    bare = delivery(message_state=Int(DEFERRED), **NUMBERED)
    marked = delivery(
        section(TEXTS, {MARK: "reader"}), message_state=Int(DEFERRED), **NUMBERED
    )
    found = Delivered(marked)
    assert (found.mark, found.state) == ("reader", DEFERRED)
    assert found.raw == bare


def test_other_properties_stay_when_the_mark_goes() -> None:
    plain = delivery(section(TEXTS, {"kind": "a", "n": Int(7)}), **NUMBERED)
    marked = delivery(
        section(TEXTS, {"kind": "a", MARK: "reader", "n": Int(7)}), **NUMBERED
    )
    assert Delivered(marked).raw == plain


def test_a_body_that_speaks_of_the_mark_is_left_alone() -> None:
    raw = section(ANNOTATIONS, {Symbol("x-opt-sequence-number"): 1}) + section(
        DATA, MARK.encode()
    )
    found = Delivered(raw)
    assert found.mark is None and found.raw == raw


def test_times_are_read_from_header_and_properties() -> None:
    short = Delivered(delivery(section(HEADER, [True, None, UInt(1_000)]), **NUMBERED))
    assert short.message().expires_at == 6_000
    fields: list[object] = [None] * 8 + [Timestamp(1 << 40)]
    long = Delivered(
        delivery(
            section(HEADER, [True, None, UInt((1 << 32) - 1)]),
            section(PROPERTIES, fields),
            **NUMBERED,
        )
    )
    assert long.message().expires_at == 1 << 40


def test_dead_letter_texts_are_found() -> None:
    raw = delivery(
        section(
            TEXTS, {"DeadLetterReason": "Bad", "DeadLetterErrorDescription": "Very"}
        ),
        deadletter_source="orders",
        **NUMBERED,
    )
    annex = Delivered(raw).message().annex
    assert annex is not None
    assert annex.dead_letter_source == "orders"
    assert annex.dead_letter_reason == "Bad"
    assert annex.dead_letter_description == "Very"


def test_sections_may_be_described_at_length() -> None:
    annotations = {Symbol("x-opt-sequence-number"): 3}
    raw = encode(Described(ULong(ANNOTATIONS), annotations)) + encode(
        Described(Symbol("amqp:data:binary"), b"body")
    )
    assert Delivered(raw).number == 3


def test_what_no_namespace_delivers_is_refused() -> None:
    with pytest.raises(DecodeError, match="no sequence number"):
        Delivered(section(DATA, b"body"))
