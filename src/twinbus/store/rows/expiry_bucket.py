"""Expiry buckets: the minute by which a message on disk is known to have expired.

An index over exact times makes every insert touch another page of it. A bucket
gathers messages that expire at nearly the same time, and is wider for a longer time
to live: at most about a twelfth of it. So the number of buckets that inserts touch
stays small, and so does what a commit writes.

A bucket is named by its last minute: it is past, for whatever width, once that minute
is over. Part of the stored format.
"""

from typing import Final

EXPIRY_BUCKET_MS: Final = 60_000

_HOUR_MS: Final = 3_600_000


def expiry_bucket(expires_at: int, ttl_ms: int) -> int:
    """The last minute of the bucket in which a message expires."""
    minute = expires_at // EXPIRY_BUCKET_MS
    width = _width_in_minutes(ttl_ms)
    return minute - minute % width + width - 1


def _width_in_minutes(ttl_ms: int) -> int:
    if ttl_ms <= _HOUR_MS:
        return 1
    if ttl_ms <= 6 * _HOUR_MS:
        return 5
    return 15 if ttl_ms <= 12 * _HOUR_MS else 60
