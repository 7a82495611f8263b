"""The tables of an audit, as Parquet; docs/reference/job-tables.md has their columns.

Each run replaces them as a whole, so that the same logs give the same tables.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit.audit_summary import AuditSummary, TimelineStep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENTITIES: Final = (
    "namespace string, entity string, entity_kind string, verdict string, "
    "claimed bigint, sent bigint, restored bigint, arrived bigint, completed bigint, "
    "expired bigint, removed bigint, moved bigint, dead_lettered bigint, "
    "redelivered bigint, in_flight bigint, lost bigint, duplicated bigint, "
    "misrouted bigint, unknown bigint"
)
FINDINGS: Final = ("finding", "message_uid", "namespace", "entity", "found_at", "at")


def write_tables(
    spark: "SparkSession",
    folder: str,
    summary: AuditSummary,
    findings: "DataFrame",
    rows: "DataFrame",
) -> None:
    """Write `entities`, `findings` and `timelines` below a folder."""
    from pyspark.sql import functions as F

    listed = [tuple(asdict(one).values()) for one in summary.entities]
    _write(spark.createDataFrame(listed, ENTITIES), f"{folder}/entities")
    order = ("finding", "namespace", "entity", "message_uid")
    found = findings.select(*FINDINGS).repartition(1).sortWithinPartitions(*order)
    _write(found, f"{folder}/findings")
    uids = F.broadcast(findings.select("message_uid").distinct())
    steps = rows.join(uids, "message_uid", "left_semi")
    steps = steps.select("message_uid", *TimelineStep.__dataclass_fields__)
    order = ("message_uid", "occurred_at", "source", "operation")
    _write(steps.repartition(1).sortWithinPartitions(*order), f"{folder}/timelines")


def _write(frame: "DataFrame", folder: str) -> None:
    frame.coalesce(1).write.mode("overwrite").parquet(folder)
