"""Dividing limits among entities."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from twinbus.spark.portable.shares import Shares

BACKLOGS = st.dictionaries(
    st.sampled_from("abcde"), st.integers(min_value=0, max_value=50), min_size=1
)


def taken_of(
    backlogs: Mapping[str, int], limit: int | None, turn: int = 0
) -> dict[str, int]:
    """What is taken of queues that have so many messages, of a byte each."""
    left = dict(backlogs)
    shares = Shares(list(backlogs), limit, 1_000, turn=turn)
    for path, messages, size_bytes in shares:
        count = min(left[path], messages, size_bytes)
        left[path] -= count
        shares.spend(path, count, count)
    return {path: backlogs[path] - left[path] for path in backlogs}


@given(BACKLOGS, st.integers(min_value=1, max_value=200), st.integers(0, 9))
def test_a_batch_is_never_too_large(
    backlogs: dict[str, int], limit: int, turn: int
) -> None:
    assert sum(taken_of(backlogs, limit, turn).values()) <= limit


@given(BACKLOGS, st.integers(min_value=5, max_value=200), st.integers(0, 9))
def test_who_has_something_gets_something(
    backlogs: dict[str, int], limit: int, turn: int
) -> None:
    taken = taken_of(backlogs, limit, turn)
    assert all(taken[path] for path, count in backlogs.items() if count)


def test_what_others_do_not_want_is_asked_for_again() -> None:
    assert taken_of({"a": 50, "b": 2, "c": 0}, 30) == {"a": 28, "b": 2, "c": 0}


@given(BACKLOGS, st.integers(0, 9))
def test_without_a_limit_all_is_taken(backlogs: dict[str, int], turn: int) -> None:
    many = {path: count * 1_000 for path, count in backlogs.items()}
    assert taken_of(many, None, turn) == many


def test_turns_begin_elsewhere() -> None:
    first = [path for path, _, _ in Shares("abc", 9, 9, turn=1)]
    assert first == ["b", "c", "a"]
