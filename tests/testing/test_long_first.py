"""Long tests are handed to workers first."""

import pytest
from groups import spread


@pytest.mark.parametrize("worker_count", [1, 2, 3, 7])
@pytest.mark.parametrize("long", [set(), {5}, {0, 9, 10, 11, 19}])
def test_the_share_of_each_worker_begins_with_long_tests(
    long: set[int], worker_count: int
) -> None:
    tests = list(range(20))
    order = spread(tests, long, worker_count)
    assert sorted(order) == tests
    left = list(order)
    for worker in range(worker_count):
        length = len(left) // (worker_count - worker)
        share, left = left[:length], left[length:]
        count = sum(n in long for n in share)
        assert all(n in long for n in share[:count])
        assert abs(count - len(long) / worker_count) < 1
        # Others keep their order, so that modules stay together.
        assert share[count:] == sorted(share[count:])
