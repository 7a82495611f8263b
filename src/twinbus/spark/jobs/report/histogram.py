"""Latencies as histograms: how many fell into which bucket.

Histograms of two hours, or of two entities, add up to that of both, which percentiles
do not, and they do not depend on the order in which Spark meets the rows. Buckets grow
by a 32nd of an octave, so a percentile is off by 1.1 % at most.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

STEPS_OF_AN_OCTAVE: Final = 32

PERCENTS: Final = (50, 90, 95, 99)

BUCKET_SQL: Final = (
    "CASE WHEN ms < 1 THEN 0 "
    f"ELSE 1 + CAST(floor({STEPS_OF_AN_OCTAVE} * log2(ms)) AS INT) END"
)
"""The bucket of the column `ms`. Bucket 0 has all below a millisecond."""


def bucket_of(ms: float) -> int:
    """The bucket of a latency, as in `BUCKET_SQL`."""
    return 0 if ms < 1 else 1 + math.floor(STEPS_OF_AN_OCTAVE * math.log2(ms))


def middle_ms(bucket: int) -> float:
    """What the latencies of a bucket are taken for."""
    return 0.5 if bucket == 0 else 2.0 ** ((bucket - 0.5) / STEPS_OF_AN_OCTAVE)


@dataclass(slots=True)
class Histogram:
    """Collects counts of buckets."""

    counts: dict[int, int] = field(default_factory=dict)
    least_ms: float = math.inf
    greatest_ms: float = -math.inf

    def add(self, bucket: int, count: int, least_ms: float, greatest_ms: float) -> None:
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.least_ms = min(self.least_ms, least_ms)
        self.greatest_ms = max(self.greatest_ms, greatest_ms)

    def merge(self, others: Iterable["Histogram"]) -> "Histogram":
        for other in others:
            for bucket, count in other.counts.items():
                self.add(bucket, count, other.least_ms, other.greatest_ms)
        return self

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def percentile_ms(self, percent: float) -> float | None:
        """So many percent are not above it. None if there is nothing."""
        rank = max(math.ceil(self.count * percent / 100), 1)
        for bucket in sorted(self.counts):
            rank -= self.counts[bucket]
            if rank <= 0:
                return min(max(middle_ms(bucket), self.least_ms), self.greatest_ms)
        return None
