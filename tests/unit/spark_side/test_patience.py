"""How long to wait for a namespace."""

import pytest

from twinbus.spark.patience import BUSY_SECONDS, RetryPatience


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.ms = 100_000.0
        self.slept: list[float] = []

    def now(self) -> int:
        return round(self.ms)

    monotonic = now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.ms += seconds * 1000


@pytest.fixture
def time() -> Time:
    return Time()


def test_waiting_ends_when_the_time_is_up(time: Time) -> None:
    patience = RetryPatience(30, clock=time, sleep=time.sleep)
    while patience.wait():
        assert time.ms <= 130_001
    assert time.ms == pytest.approx(130_000, abs=1)
    assert len(time.slept) > 5


def test_steps_grow_and_stay_bounded(time: Time) -> None:
    patience = RetryPatience(3600, clock=time, sleep=time.sleep)
    while patience.wait():
        pass
    assert time.slept[0] <= 0.2
    assert max(time.slept) <= 10.0
    assert len(time.slept) < 1000


def test_a_busy_namespace_is_left_alone_for_its_ten_seconds(time: Time) -> None:
    patience = RetryPatience(60, clock=time, sleep=time.sleep)
    assert patience.wait(BUSY_SECONDS)
    assert time.slept == [10.0]


def test_no_patience_is_no_wait(time: Time) -> None:
    assert not RetryPatience(0, clock=time, sleep=time.sleep).wait()
    assert time.slept == []
