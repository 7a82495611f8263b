"""What it comes to that a message was taken out of the bus and is not in its lake.

It is lost, unless it is of a day before the first that the lake has anything of: who
keeps a lake small removes whole days of it.
"""

from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit.audit_summary import LakeVerdict
from twinbus.spark.jobs.audit.judgement import BEFORE_LAKE, LOST, UNKNOWN
from twinbus.spark.jobs.audit.lake_comparison import LakeComparison

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE: Final = ("message_uid", "namespace", "entity")

_CAME: Final = (
    "result = 'ok' AND operation IN ('send', 'restore', 'divert', 'arrive') AND "
    "NOT (source LIKE 'sender-%')"
)


def judged_missing(missing: "DataFrame", rows: "DataFrame") -> "DataFrame":
    """The columns of findings, and `lake`. `rows` has all that is known of these
    messages: when one came says exactly of which day it is."""
    from pyspark.sql import functions as F

    came = rows.where(_CAME).groupBy(*_PLACE).agg(F.min("occurred_at").alias("came_at"))
    timed = missing.join(came, list(_PLACE), "left")
    # Without a lake that begins, the comparison is null, and not true.
    finding = (
        f"IF(CAST(coalesce(came_at, enqueued_at) AS DATE) < begins_on, "
        f"'{BEFORE_LAKE}', finding)"
    )
    return timed.select(
        F.expr(finding).alias("finding"),
        *_PLACE,
        F.expr("CAST(NULL AS STRING)").alias("found_at"),
        "at",
        "lake",
    )


def lake_verdicts(
    compared: LakeComparison, findings: "DataFrame | None"
) -> tuple[LakeVerdict, ...]:
    """One for each lake, in their order."""
    found: dict[tuple[int, str], int] = {}
    if findings is not None:
        for row in findings.groupBy("lake", "finding").count().collect():
            found[row["lake"], row["finding"]] = int(row["count"])
    return tuple(
        LakeVerdict(
            lake=one.contents.lake.folder.name,
            namespace=one.contents.lake.identity.namespace,
            messages=one.contents.count,
            taken=one.taken,
            lost=found.get((at, LOST), 0),
            unknown=found.get((at, UNKNOWN), 0),
            before=found.get((at, BEFORE_LAKE), 0),
        )
        for at, one in enumerate(compared.lakes)
    )
