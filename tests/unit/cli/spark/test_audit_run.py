"""What an audit prints: a name of an entity is never broken."""

import pytest

from twinbus.cli.spark import audit_run
from twinbus.spark.jobs.audit.audit_summary import (
    PROVEN,
    AuditSummary,
    EntityVerdict,
    LakeVerdict,
)

NAME = "billing-of-the-eastern-warehouses/subscriptions/everything-for-the-auditors"


def audited() -> AuditSummary:
    counts = (
        *("claimed", "sent", "restored", "arrived", "completed", "expired"),
        *("removed", "moved", "dead_lettered", "redelivered", "in_flight"),
    )
    verdict = EntityVerdict(
        namespace="site-a",
        entity=NAME,
        entity_kind="subscription",
        verdict=PROVEN,
        **dict.fromkeys(counts, 1_234_567),
    )
    return AuditSummary(
        entities=(verdict,),
        findings=(),
        totals={},
        rows=1,
        buckets=1,
        buckets_opened=0,
        complete_until=None,
        gaps=(),
        notes=(),
        seconds=1.0,
    )


def test_an_audit_has_each_entity_on_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    audit_run._print(audited())
    lines = capsys.readouterr().out.splitlines()
    [line] = [line for line in lines if f"site-a: {NAME}" in line]
    assert line.split().count("1,234,567") == 6
    assert PROVEN in line


def test_a_lake_is_told_with_what_it_lacks() -> None:
    counts = {"messages": 1_200, "taken": 1_203}
    whole = LakeVerdict(lake="lake", namespace="n@1", **counts)
    assert audit_run.lake_line(whole) == (
        "lake has 1,200 messages; of 1,203 that were taken out of the bus for it, none "
        "is missing."
    )
    amiss = {"lost": 3, "unknown": 1, "before": 2}
    torn = LakeVerdict(lake="lake", namespace="n@1", **counts, **amiss)
    assert audit_run.lake_line(torn).endswith(
        "for it, 3 lost, 1 perhaps lost, 2 of days before it begins."
    )
