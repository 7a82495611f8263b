"""How much a batch may still take."""

from twinbus.spark.portable.allowance import Allowance


def test_what_is_reserved_is_not_given_twice() -> None:
    allowance = Allowance(10, 1 << 20, 100)
    assert allowance.reserve(2) == 5
    assert allowance.reserve(2) == 3
    assert allowance.reserve() == 2
    assert allowance.reserve() == 0


def test_what_was_not_used_is_free_again() -> None:
    allowance = Allowance(10, 1 << 20, 100)
    allowance.spend(allowance.reserve(), 4, 400)
    assert allowance.reserve() == 6


def test_bytes_bound_what_is_asked_for() -> None:
    allowance = Allowance(1000, 10_000, 1_000)
    count = allowance.reserve()
    assert count == 10
    # They were smaller than was thought.
    allowance.spend(count, 10, 5_000)
    assert allowance.reserve() == 5


def test_one_message_may_be_larger_than_the_limit() -> None:
    allowance = Allowance(10, 500, 1_000)
    assert allowance.reserve() == 1
    assert allowance.reserve() == 0


def test_chunks_are_bounded() -> None:
    assert Allowance(1 << 31, 1 << 40, 1).reserve() == 500
