"""Composites: field tables, defaults, and errors for wrong fields."""

import pytest

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.composite import (
    decode_composite,
    descriptor_code,
    encode_composite,
    from_described,
)
from twinbus.amqp.errors import DecodeError, LocalError
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.outcomes import Accepted
from twinbus.amqp.performatives import Attach, Begin, Open
from twinbus.amqp.transactions import Discharge
from twinbus.amqp.types import AmqpArray, Described, Symbol, UInt, ULong


def test_trailing_nulls_are_left_out() -> None:
    assert encode_composite(Target(address="q")).hex() == "005329c00401a10171"


def test_descriptors_are_small_ulongs() -> None:
    assert encode_composite(Accepted()).hex() == "00532445"


@pytest.mark.parametrize(
    "value",
    [
        Open(container_id="c", channel_max=7, offered_capabilities=("a", "b")),
        Begin(next_outgoing_id=1, incoming_window=2, outgoing_window=3),
        Attach(
            name="n",
            handle=1,
            role=True,
            source=Source(address="q", filter={Symbol("f"): None}),
            target=Target(),
            properties={Symbol("p"): UInt(1)},
        ),
    ],
)
def test_a_composite_comes_back_as_it_was(value: object) -> None:
    data = encode_composite(value)
    assert decode_composite(data, 0) == (value, len(data))


def test_names_of_descriptors_are_understood() -> None:
    assert from_described(Described(Symbol("amqp:accepted:list"), [])) == Accepted()
    assert descriptor_code(Symbol("no:such")) == -1
    assert descriptor_code("amqp:accepted:list") == -1


def test_unknown_descriptors_stay_described() -> None:
    value = Described(Symbol("vendor:thing"), 1)
    assert from_described(value) is value
    assert from_described("plain") == "plain"


def test_several_symbols_may_come_as_one_array_or_list() -> None:
    def capabilities(value: object) -> object:
        source = from_described(Described(ULong(0x28), [None] * 10 + [value]))
        assert isinstance(source, Source)
        return source.capabilities

    assert capabilities(Symbol("a")) == ("a",)
    assert capabilities(AmqpArray(0xA3, [Symbol("a"), Symbol("b")])) == ("a", "b")
    assert capabilities([Symbol("a")]) == ("a",)
    with pytest.raises(DecodeError):
        capabilities(UInt(1))


def test_text_keys_of_property_maps_become_symbols() -> None:
    data = encode_composite(Open(container_id="c", properties={"product": "p"}))
    value, _ = decode(data, 0)
    assert isinstance(value, Described)
    assert isinstance(value.value, list)
    [key] = value.value[9]
    assert type(key) is Symbol


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [UInt(1)],
        ["c", None, "text"],
        ["c", None, True],
        ["c", None, -1],
        ["c", None, None, UInt(65536)],
        ["c"] + [None] * 8 + [[]],
        ["c"] + [None] * 10,
    ],
)
def test_wrong_fields_are_a_decode_error(fields: list[object]) -> None:
    with pytest.raises(DecodeError):
        from_described(Described(ULong(0x10), fields))


def test_a_timestamp_must_be_a_number() -> None:
    with pytest.raises(DecodeError):
        from_described(Described(ULong(0x73), [None] * 8 + ["now"]))


def test_binary_fields_take_only_bytes() -> None:
    with pytest.raises(LocalError):
        encode_composite(Discharge(txn_id="text"))  # type: ignore[arg-type]


def test_a_composite_needs_a_list() -> None:
    with pytest.raises(DecodeError):
        decode_composite(encode(Described(ULong(0x10), {})), 0)
