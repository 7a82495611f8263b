"""Which dead letters a command selects."""

from twinbus.cli.dead_letter_choice import Choice


def test_all_are_never_enough() -> None:
    assert Choice().takes(7)
    assert not Choice().is_done(1_000_000)


def test_so_many_are_enough() -> None:
    choice = Choice(count=2)
    assert choice.takes(7)
    assert [choice.is_done(count) for count in (1, 2)] == [False, True]


def test_those_with_a_number_are_meant_and_no_others() -> None:
    choice = Choice(numbers=frozenset((3, 5)))
    assert [number for number in range(7) if choice.takes(number)] == [3, 5]
    assert [choice.is_done(count) for count in (1, 2)] == [False, True]
