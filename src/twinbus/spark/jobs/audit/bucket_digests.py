"""Digests of buckets of messages: equal sides need no closer look.

Every message belongs to one bucket, by its uid. Three pairs of sides are compared in
each: what came to a place and what left it, what senders claim and what came, what
was diverted and what became of that. Each row counts once for one side or the other,
with a hash of its message; the digest of a pair is the difference of the two sums,
which is zero if both sides hold the same messages as often. A sum is kept in two
halves of 32 bits: a decimal would cost more than all the rest. Two pairs that are
opened alike share one sum, because every sum costs a part of the whole pass.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit import row_meaning as meaning
from twinbus.spark.jobs.audit.row_weights import weighed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BUCKET_ROWS: Final = 32
"""Rows of a bucket, some eight messages: a closer look at one that differs is short,
and a task has several messages of a bucket, which it sums up before it hands them on.
"""
_LEAST: Final = 1 << 10
_MOST: Final = 1 << 20
"""Each bucket takes some hundred bytes of memory while they are made."""

BUCKET: Final = "bucket"
CLAIMED: Final = "claimed"
BROUGHT_BACK: Final = "brought_back"
_LOW: Final = "4294967295L"
# All other hashes of a message start from it: to hash its text again takes longer.
_UID: Final = "xxhash64(message_uid)"

# Without claims: for which entity it came to the backlog, and to which one it was
# restored. Not every log calls it so; then all of the backlog is opened.
_LOGGED_TARGET: Final = f"lower(IF({meaning.IS_BACKLOG}, destination, entity))"


def bucket_count(rows: int) -> int:
    """A power of two that suits the number of rows."""
    wanted = max(rows // _BUCKET_ROWS, 1)
    return min(max(1 << (wanted - 1).bit_length(), _LEAST), _MOST)


def with_bucket(rows: "DataFrame", buckets: int) -> "DataFrame":
    """The rows about messages, with their buckets."""
    from pyspark.sql import functions as F

    bucket = f"CAST({_UID} & {buckets - 1}L AS INT)"
    return rows.where("message_uid IS NOT NULL").withColumn(BUCKET, F.expr(bucket))


def digests_of(rows: "DataFrame", *, has_claims: bool) -> "DataFrame":
    """The differences of each bucket, and whether it has messages that were brought
    back. With claims: whether it has any, and marks of what arrived there."""
    from pyspark.sql import functions as F

    if has_claims:
        kinds: tuple[str, ...] = ("balance", "claims", "claimed_detours")
        kinds += ("arrivals", BROUGHT_BACK)
        detour = _UID
    else:
        kinds = ("balance", "logged_detours", BROUGHT_BACK)
        detour = f"xxhash64({_UID}, {_LOGGED_TARGET})"
    hashes = {
        "place": f"xxhash64({_UID}, namespace, entity)",
        "sent": f"xxhash64({_UID}, entity)",
        "detour": detour,
    }
    found = weighed(rows, kinds, **{BUCKET: BUCKET}, **hashes)
    sums = _sums("claimed_detours" if has_claims else "logged_detours")
    if has_claims:
        sums |= _CLAIM_SUMS
    return found.groupBy(BUCKET).agg(
        *(F.expr(text).alias(name) for name, text in sums.items())
    )


def _low(weight: str, value: str) -> str:
    return f"{weight} * ({value} & {_LOW})"


def _high(weight: str, value: str) -> str:
    return f"{weight} * shiftrightunsigned({value}, 32)"


def _sums(detours: str) -> dict[str, str]:
    return {
        "others_low": f"sum({_low('balance', 'place')} + {_low(detours, 'detour')})",
        "others_high": f"sum({_high('balance', 'place')} + {_high(detours, 'detour')})",
        BROUGHT_BACK: f"bit_or({BROUGHT_BACK})",
    }


_CLAIM_SUMS: Final = {
    "claims_low": f"sum({_low('claims', 'sent')})",
    "claims_high": f"sum({_high('claims', 'sent')})",
    CLAIMED: "bit_or(IF(claims = -1, 1, 0))",
    "arrivals": "sum(arrivals)",
    # One bit for each message, by six bits of its hash, and by another six.
    "marks": "bit_or(shiftleft(CAST(arrivals AS BIGINT), CAST(place & 63L AS INT)))",
    "more_marks": (
        "bit_or(shiftleft(CAST(arrivals AS BIGINT), "
        "CAST(shiftright(place, 6) & 63L AS INT)))"
    ),
}

_DIFFERS: Final = "others_low <> 0 OR others_high <> 0"


def differs(*, has_claims: bool) -> str:
    """True if the two sides of a pair differ, as an expression."""
    claims = " OR claims_low <> 0 OR claims_high <> 0" if has_claims else ""
    return f"({_DIFFERS}{claims})"


MAY_REPEAT: Final = "(bit_count(marks) < arrivals AND bit_count(more_marks) < arrivals)"
"""Whether a message may have come to a place twice. One that did has the same bits
twice, so none is overlooked; two messages may have the same bits, too."""


def counted_buckets(
    digests: "DataFrame", conditions: Mapping[str, str]
) -> dict[str, int]:
    """How many buckets meet each of the conditions, by their names."""
    from pyspark.sql import functions as F

    sums = [
        F.expr(f"count_if({text})").alias(name) for name, text in conditions.items()
    ]
    (row,) = digests.agg(*sums).collect()
    return {name: int(row[name]) for name in conditions}


def repeated_buckets(rows: "DataFrame", *, has_claims: bool) -> "DataFrame":
    """Buckets with a message that came to a place more than once, exactly.

    Both sides of a pair may hold it twice, so digests do not show it, except where
    claims say that it was sent once. The bus gives the uid of a message without a send
    id to one row only, so these need no look.
    """
    from pyspark.sql import functions as F

    created = f"{meaning.CREATED} AND {meaning.HAS_SEND_ID}"
    wanted = meaning.ARRIVED if has_claims else f"({created}) OR ({meaning.ARRIVED})"
    came = rows.where(wanted).select(
        BUCKET,
        F.expr("operation = 'arrive'").alias("is_arrival"),
        F.expr("xxhash64(message_uid, namespace, entity)").alias("hash"),
    )
    return (
        came.groupBy("hash", "is_arrival")
        .agg(F.count("*").alias("times"), F.first(BUCKET).alias(BUCKET))
        .where("times > 1")
        .select(BUCKET)
    )
