"""A2: each measure has a threshold, and the refusal names reason, value and limit."""

import pytest

from twinbus.throttling.readings import ProcessReading, StoreReading
from twinbus.throttling.thresholds import Thresholds
from twinbus.throttling.verdict import process_reason, rate_reason, store_reason

MEGABYTE = 1024 * 1024
LIMITS = Thresholds(
    cpu_percent=90, memory_percent=80, commit_ms=1000, free_megabytes=100
)


def test_a2_cpu_above_its_threshold_is_named() -> None:
    assert process_reason(ProcessReading(cpu_percent=90.0), LIMITS, False) is None
    reason = process_reason(ProcessReading(cpu_percent=97.3), LIMITS, False)
    assert reason is not None
    assert "97 %" in reason
    assert "(throttle_cpu_percent) is 90 %" in reason
    assert reason.endswith("Wait 10 seconds, then try again.")


def test_a2_memory_above_its_threshold_is_named() -> None:
    reading = ProcessReading(
        memory_bytes=850 * MEGABYTE, memory_limit_bytes=1000 * MEGABYTE
    )
    reason = process_reason(reading, LIMITS, False)
    assert reason is not None
    assert "850 MB of memory, 85 % of the 1000 MB" in reason
    assert "(throttle_memory_percent) is 80 %" in reason


@pytest.mark.parametrize(
    ("reading", "texts"),
    [
        (StoreReading(commit_ms=1500), ("takes 1500 ms", "is 1000 ms")),
        (StoreReading(free_bytes=50 * MEGABYTE), ("50 MB of free", "is 100 MB")),
    ],
)
def test_a2_store_beyond_its_threshold_is_named(
    reading: StoreReading, texts: tuple[str, ...]
) -> None:
    reason = store_reason(reading, LIMITS, False)
    assert reason is not None
    assert all(text in reason for text in (*texts, "Wait 10 seconds"))


def test_what_was_too_high_must_fall_below_the_threshold() -> None:
    for commit_ms, was_busy, is_busy in (
        (1000, False, False),
        (950, True, True),
        (900, True, False),
    ):
        reading = StoreReading(commit_ms=commit_ms)
        assert (store_reason(reading, LIMITS, was_busy) is not None) is is_busy
    free = StoreReading(free_bytes=105 * MEGABYTE)
    assert store_reason(free, LIMITS, False) is None
    assert store_reason(free, LIMITS, True) is not None


def test_what_is_not_watched_or_not_measured_refuses_nothing() -> None:
    everything = ProcessReading(
        cpu_percent=1000.0, memory_bytes=10, memory_limit_bytes=1
    )
    assert process_reason(everything, Thresholds(), True) is None
    assert process_reason(ProcessReading(), LIMITS, False) is None
    assert store_reason(StoreReading(commit_ms=10**6), Thresholds(), True) is None
    assert store_reason(StoreReading(), LIMITS, False) is None


def test_a2_rate_is_named_with_what_is_owed() -> None:
    limits = Thresholds(operations_per_second=100, burst=200)
    reason = rate_reason("site-a", limits, 35)
    assert "'site-a'" in reason
    assert "35 more" in reason
    assert "100 per second, and 200 at once" in reason
