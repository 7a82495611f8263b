"""Expiry buckets never end before their messages, and not long after them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.store.rows.expiry_bucket import EXPIRY_BUCKET_MS, expiry_bucket

HOUR_MS = 3_600_000


@given(st.integers(1, 1 << 45), st.integers(1, 1 << 40))
def test_bucket_ends_after_its_messages(enqueued_at, ttl_ms):
    expires_at = enqueued_at + ttl_ms
    end = (expiry_bucket(expires_at, ttl_ms) + 1) * EXPIRY_BUCKET_MS
    assert expires_at < end
    assert end - expires_at <= max(EXPIRY_BUCKET_MS, ttl_ms // 12)


@pytest.mark.parametrize(
    ("ttl_ms", "bucket_count"),
    [(HOUR_MS, 60), (6 * HOUR_MS, 72), (12 * HOUR_MS, 48), (48 * HOUR_MS, 48)],
)
def test_longer_times_to_live_share_wider_buckets(ttl_ms, bucket_count):
    moments = range(0, ttl_ms, EXPIRY_BUCKET_MS)
    assert len({expiry_bucket(at, ttl_ms) for at in moments}) == bucket_count
