"""The fragment of a key: the same for ever, and spread evenly."""

from collections import Counter

import pytest

from twinbus.fragments.hashing import HASH_VERSION, fragment_index


def test_keys_stay_where_they_are() -> None:
    """These are a part of the stored format: if one changes, sessions are split."""
    keys = ["", "a", "customer-17", "Ünïcödé", "\ud800", "x" * 128]
    assert HASH_VERSION == 1
    assert [fragment_index(key, 16) for key in keys] == [0, 13, 15, 12, 14, 4]
    assert [fragment_index(key, 3) for key in keys] == [0, 1, 2, 1, 0, 2]


@pytest.mark.parametrize("pattern", ["{}", "session-{}", "{:08d}", "k{}k"])
@pytest.mark.parametrize("fragment_count", [2, 7, 16])
def test_keys_that_differ_in_a_number_are_spread(
    pattern: str, fragment_count: int
) -> None:
    found = Counter(
        fragment_index(pattern.format(number), fragment_count)
        for number in range(10_000)
    )
    fair = 10_000 / fragment_count
    assert len(found) == fragment_count
    assert max(found.values()) < 1.2 * fair
    assert min(found.values()) > 0.8 * fair
