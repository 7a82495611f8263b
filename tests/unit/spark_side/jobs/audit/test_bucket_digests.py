"""How many buckets there are."""

from twinbus.spark.jobs.audit.bucket_digests import bucket_count


def test_buckets_are_few_messages_each_and_bounded() -> None:
    assert bucket_count(0) == bucket_count(10_000) == 1024
    assert bucket_count(5_000_000) == 1 << 18
    assert bucket_count(10**10) == 1 << 20
