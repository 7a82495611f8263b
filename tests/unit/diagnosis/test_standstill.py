"""A standstill is worth one early diagnosis, and the next one only after a pause."""

from collections.abc import Iterable

from twinbus.diagnosis.standstill import Standstill


def dues(standstill: Standstill, beats: Iterable[int]) -> list[int]:
    """At which of these looks a diagnosis is due."""
    found = []
    for index, beat in enumerate(beats):
        standstill.look(beat)
        if standstill.is_early_due():
            found.append(index)
    return found


def test_short_pauses_are_worth_nothing() -> None:
    assert dues(Standstill(3, 0), [1, 1, 1, 2, 2, 2, 3]) == []


def test_standstill_is_worth_one() -> None:
    assert dues(Standstill(3, 0), [1, *[2] * 20]) == [4]


def test_next_standstill_is_worth_one_after_a_pause() -> None:
    beats = [1] * 5 + [2] * 5 + [3] * 5 + [4] * 5
    assert dues(Standstill(3, 0), beats) == [3, 8, 13, 18]
    assert dues(Standstill(3, 8), beats) == [3, 13]


def test_alone_there_is_no_early_one() -> None:
    standstill = Standstill()
    assert dues(standstill, [1] * 20) == []
    assert standstill.missed_count == 19
