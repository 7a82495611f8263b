"""Histograms of latencies: buckets, sums, percentiles."""

import random

from twinbus.spark.jobs.report.histogram import Histogram, bucket_of, middle_ms


def collected(*latencies: float) -> Histogram:
    histogram = Histogram()
    for ms in latencies:
        histogram.add(bucket_of(ms), 1, ms, ms)
    return histogram


def test_the_middle_of_a_bucket_is_in_it() -> None:
    assert [bucket_of(middle_ms(bucket)) for bucket in range(800)] == list(range(800))


def test_percentiles_are_as_near_as_promised() -> None:
    draw = random.Random(7)
    latencies = sorted(draw.lognormvariate(4, 2) + 1 for _ in range(5_000))
    histogram = collected(*latencies)
    for percent in (50, 90, 95, 99):
        exact = latencies[max(-(-len(latencies) * percent // 100), 1) - 1]
        found = histogram.percentile_ms(percent)
        assert found is not None
        assert abs(found / exact - 1) <= 0.011


def test_a_percentile_is_never_beyond_what_was_measured() -> None:
    histogram = collected(100.0)
    assert {histogram.percentile_ms(percent) for percent in (1, 50, 100)} == {100.0}


def test_below_a_millisecond_is_one_bucket() -> None:
    assert {bucket_of(ms) for ms in (-5.0, 0.0, 0.999)} == {0}
    assert collected(0.0, 0.0).percentile_ms(50) == 0.0


def test_nothing_has_no_percentile() -> None:
    assert Histogram().percentile_ms(50) is None


def test_histograms_add_up() -> None:
    one, other = collected(1, 5, 9), collected(5, 70)
    assert Histogram().merge([one, other]) == collected(1, 5, 9, 5, 70)
