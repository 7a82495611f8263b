"""How many messages are requested at a time."""

from hypothesis import given
from hypothesis import strategies as st

from twinbus.pairing.syphon.pace import Pace


def test_it_begins_with_few_and_grows_while_all_goes_well() -> None:
    pace = Pace(500)
    counts = []
    for _ in range(5):
        counts.append(pace.count)
        pace.worked(pace.count, 1_000, 100)
    assert counts == [64, 128, 256, 500, 500]


def test_it_does_not_grow_without_need() -> None:
    pace = Pace(500)
    pace.worked(1, 1_000, 1)
    assert pace.count == 64


def test_slow_or_large_batches_become_smaller() -> None:
    pace = Pace(500)
    pace.worked(64, 1_000, 11_000)
    assert pace.count == 32
    pace.worked(32, 9 * 1024 * 1024, 1)
    assert pace.count == 16


@given(
    st.integers(1, 1_000),
    st.lists(st.tuples(st.integers(1, 1_000), st.integers(0), st.integers(0))),
)
def test_it_asks_for_one_at_least_and_never_for_more_than_allowed(
    most: int, batches: list[tuple[int, int, int]]
) -> None:
    pace = Pace(most)
    for batch in batches:
        pace.worked(*batch)
        assert 1 <= pace.count <= most
