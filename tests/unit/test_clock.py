"""The system clock is in milliseconds, and its monotonic time never goes back."""

from datetime import UTC, datetime

from twinbus.clock import Clock, SystemClock


def test_system_clock_tells_epoch_milliseconds() -> None:
    clock: Clock = SystemClock()
    before = datetime.now(UTC).timestamp() * 1000
    now = clock.now()
    after = datetime.now(UTC).timestamp() * 1000
    assert before - 1 <= now <= after


def test_monotonic_side_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)
