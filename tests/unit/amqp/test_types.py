"""The type classes: equality, hashing and printing."""

import pytest

from twinbus.amqp.types import AmqpArray, Described, Symbol, UInt


def test_symbols_and_integers_equal_their_plain_values() -> None:
    assert Symbol("a") == "a"
    assert {Symbol("a"): 1}["a"] == 1
    assert UInt(5) == 5


def test_described_values_compare_by_descriptor_and_value() -> None:
    assert Described(1, "x") == Described(1, "x")
    assert Described(1, "x") != Described(2, "x")
    assert Described(1, "x") != "x"
    assert len({Described(1, "x"), Described(1, "x")}) == 1
    assert repr(Described(1, "x")) == "Described(1, 'x')"


def test_arrays_compare_by_constructor_too() -> None:
    assert AmqpArray(0x70, [1]) == AmqpArray(0x70, [1])
    assert AmqpArray(0x70, [1]) != AmqpArray(0x52, [1])
    assert AmqpArray(0x70, [1]) != [1]
    assert repr(AmqpArray(0x70, [1])) == "AmqpArray(0x70, [1])"
    with pytest.raises(TypeError):
        hash(AmqpArray(0x70, []))
